import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import {
  type ApprovalView,
  type ArtifactRef,
  type CallView,
  type ChainResult,
  type ChainStep,
  type DeadLetter,
  type Identity,
  type Json,
  type Result,
  type StreamEvent,
  ToolError,
} from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import type { CircuitSummary } from '@gantry/core/internal/resilience/circuit-state'
import { createExecutor, demoTools } from '@gantry/tools'
import type { CallInput } from '../storage/calls/call-store.ts'
import { memoryKeys } from '../storage/keys/api-keys.fixture.ts'
import { stub } from '../stub.fixture.ts'
import { createKeyControl } from './authentication/key-control.ts'
import type { Service } from './service.ts'

interface StoredCall {
  readonly view: CallView
  readonly tenant: string
  readonly input: CallInput
  readonly events: StreamEvent[]
  readonly stop: AbortController
}

/** A service without a database, for tests of HTTP and MCP; its calls outlive any number of HTTP servers. */
export interface FakeService extends Service {
  /** Every call that ran, by its tool and arguments; shows duplicates. */
  readonly ran: string[]
  /** All submitted inputs, repeats included. */
  readonly submitted: CallInput[]
  readonly artifacts: Map<string, { readonly ref: ArtifactRef; readonly tenant: string; readonly bytes: Uint8Array }>
  readonly deadLetterRows: DeadLetter[]
  readonly questions: ApprovalView[]
  /** The errors of the next submissions, one after the other. */
  readonly refusals: unknown[]
  /** The number of event streams that are being read. */
  readers: number
  state: { ready: boolean; problems: readonly string[] }
  close(): Promise<void>
}

export function fakeService(tools: readonly DefinedTool[] = []): FakeService {
  const executor = createExecutor({ tools: [...demoTools(), ...tools] })
  const calls = new Map<string, StoredCall>()
  const keys = new Map<string, string>()
  const bell = new EventTarget()
  const ring = (): void => void bell.dispatchEvent(new Event('change'))

  const kept = (callId: string, { tenant }: Identity): StoredCall => {
    const found = calls.get(callId)
    if (found === undefined || found.tenant !== tenant) throw new ToolError('NOT_FOUND', `There is no call ${callId}.`)
    return found
  }
  const changed = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        bell.removeEventListener('change', end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      bell.addEventListener('change', end)
      signal.addEventListener('abort', end)
      if (signal.aborted) end()
    })
  const finish = (callId: string, result: Result | ChainResult): void => {
    const call = calls.get(callId)
    if (call === undefined || call.view.result !== undefined) return
    const view = { ...call.view, state: result.status, finishedAt: new Date().toISOString(), result }
    calls.set(callId, { ...call, view })
    ring()
  }
  const run = async (callId: string, input: CallInput, identity: Identity, stop: AbortController): Promise<void> => {
    fake.ran.push(`${input.tool} ${JSON.stringify(input.args)}`)
    const { signal } = stop
    if (input.kind === 'chain') {
      const { steps, input: given } = input.args as { steps: readonly ChainStep[]; input?: Json }
      const options = given === undefined ? { signal, identity } : { signal, identity, input: given }
      finish(callId, await executor.chain(steps, options))
      return
    }
    const options = {
      callId,
      identity,
      signal,
      ...(input.timeoutMs === undefined ? {} : { timeoutMs: input.timeoutMs }),
    }
    for await (const event of executor.stream(input.tool ?? '', input.args, options)) {
      calls.get(callId)?.events.push(event)
      if (event.kind === 'done' || event.kind === 'error') finish(callId, event.result)
      else ring()
    }
  }
  const fake: FakeService = {
    ran: [],
    submitted: [],
    artifacts: new Map(),
    deadLetterRows: [],
    questions: [],
    refusals: [],
    readers: 0,
    state: { ready: true, problems: [] },
    async submit(input, identity, how) {
      how?.hold?.()
      fake.submitted.push(input)
      const refusal = fake.refusals.shift()
      if (refusal !== undefined) throw refusal
      const key = `${identity.tenant} ${identity.principal} ${input.idempotencyKey ?? randomUUID()}`
      const before = calls.get(keys.get(key) ?? '')
      if (before !== undefined) {
        const same = JSON.stringify([before.input.tool, before.input.args]) === JSON.stringify([input.tool, input.args])
        if (!same) throw new ToolError('IDEMPOTENCY_CONFLICT', 'The key was used for another call.')
        return { callId: before.view.callId, repeated: true }
      }
      if (input.kind === 'call') await executor.describe(input.tool ?? '', { identity })
      const [callId, stop] = [randomUUID(), new AbortController()]
      const view: CallView = {
        callId,
        kind: input.kind,
        tool: input.tool ?? 'chain',
        state: 'running',
        principal: identity.principal,
        priority: input.priority ?? 0,
        createdAt: new Date().toISOString(),
        attempts: 1,
      }
      keys.set(key, callId)
      calls.set(callId, { view, tenant: identity.tenant, input, events: [], stop })
      void run(callId, input, identity, stop)
      return { callId, repeated: false }
    },
    async wait(callId, identity, waitMs, signal) {
      const time = AbortSignal.any([signal, AbortSignal.timeout(waitMs)])
      while (kept(callId, identity).view.result === undefined && !time.aborted) await changed(time)
      return kept(callId, identity).view.result
    },
    async call(callId, identity, { args = false } = {}) {
      const { view, input } = kept(callId, identity)
      return args ? { ...view, args: stub<Json>(input.args ?? {}) } : view
    },
    async calls({ limit = 100, cursor, state, tool }, identity) {
      const all = [...calls.values()].filter(({ tenant, view }) => {
        const fits = (state === undefined || view.state === state) && (tool === undefined || view.tool === tool)
        return tenant === identity.tenant && fits
      })
      const from = cursor === undefined ? 0 : Number(cursor)
      const items = all.slice(from, from + limit).map(({ view: { result: _result, ...view } }) => view)
      return from + limit < all.length ? { items, cursor: String(from + limit) } : { items }
    },
    async events(callId, afterId, identity, signal) {
      kept(callId, identity)
      return (async function* () {
        fake.readers += 1
        try {
          let last = afterId
          while (!signal.aborted) {
            const { events, view } = kept(callId, identity)
            const fresh = events.filter(({ id }) => id > last)
            for (const event of fresh) yield event
            last = fresh.at(-1)?.id ?? last
            if (fresh.length === 0 && view.result !== undefined) return
            if (fresh.length === 0) await changed(signal)
          }
        } finally {
          fake.readers -= 1
        }
      })()
    },
    async cancel(callId, identity) {
      kept(callId, identity).stop.abort(new ToolError('CANCELLED', 'The call was cancelled.'))
      return kept(callId, identity).view
    },
    async replay(callId, identity) {
      const { callId: id, kind, tool, result } = kept(callId, identity).view
      if (result === undefined) throw new ToolError('INPUT_INVALID', 'The call has not ended.')
      return { callId: id, kind, tool, decision: 'allow', same: true, differences: [], result, warnings: [] }
    },
    approvals: {
      list: async () => ({ items: fake.questions.map(({ args: _args, ...question }) => question) }),
      async get(id) {
        const found = fake.questions.find((question) => question.id === id)
        if (found === undefined) throw new ToolError('NOT_FOUND', `There is no approval ${id}.`)
        return found
      },
      async decide(id, { decision, reason: why }, { principal: by }) {
        const decided = { by, at: new Date().toISOString(), ...(why === undefined ? {} : { why }) }
        const state = decision === 'approve' ? 'approved' : 'denied'
        const next: ApprovalView = { ...(await fake.approvals.get(id, owner)), state, decided }
        fake.questions.splice(0, fake.questions.length, ...fake.questions.map((one) => (one.id === id ? next : one)))
        return next
      },
    },
    deadLetters: async () => ({ items: fake.deadLetterRows.map(({ payload: _payload, ...deadLetter }) => deadLetter) }),
    async deadLetter(id) {
      const found = fake.deadLetterRows.find((deadLetter) => deadLetter.id === id)
      if (found === undefined) throw new ToolError('NOT_FOUND', `There is no dead letter ${id}.`)
      return found
    },
    async redrive(id, identity) {
      const { payload } = await fake.deadLetter(id, identity)
      const { callId } = await fake.submit({ ...stub<CallInput>(payload), idempotencyKey: `redrive:${id}` }, identity)
      return { callId }
    },
    async discard(id, identity) {
      await fake.deadLetter(id, identity)
    },
    async artifactUrl(id, { tenant }) {
      if (fake.artifacts.get(id)?.tenant !== tenant)
        throw new ToolError('NOT_FOUND', 'There is no artifact of this id.')
      return { url: `/v1/artifacts/${id}`, signed: false }
    },
    async artifact(id, range, identity) {
      const found = fake.artifacts.get(id)
      if (found?.tenant !== identity.tenant) throw new ToolError('NOT_FOUND', `There is no artifact ${id}.`)
      const { ref, bytes } = found
      const start = Math.min(range?.start ?? 0, bytes.length)
      const end = Math.min(range?.end ?? bytes.length, bytes.length)
      return { artifact: ref, start, end, content: Readable.from([bytes.subarray(start, end)]) }
    },
    workers: async () => [
      {
        worker: 'w1',
        host: 'here',
        pid: 1,
        roles: ['api', 'worker'],
        slots: 4,
        running: 0,
        state: 'ready',
        startedAt: new Date().toISOString(),
        seenAt: new Date().toISOString(),
      },
    ],
    health: async () => ({
      worker: 'w1',
      ...fake.state,
      notes: [],
      dependencies: [{ dependency: 'database', up: false, since: new Date().toISOString(), reason: 'It is full.' }],
      unrecorded: [
        {
          callId: 'c',
          tool: 'demo:add:1.0.0',
          tenant: 'acme',
          since: new Date().toISOString(),
          tries: 2,
          reason: 'It is full.',
        },
      ],
    }),
    runtimes: async () => [
      {
        kind: 'process',
        isolation: 'namespaces',
        limits: { wallMs: 'timer' },
        languages: ['javascript'],
        attacks: ['1'],
        breached: [],
        available: true,
        version: '1',
        startMs: 5,
      },
      {
        kind: 'wasm',
        isolation: 'namespaces',
        limits: {},
        languages: [],
        attacks: [],
        breached: [],
        available: false,
        version: null,
        startMs: null,
        reason: 'It is not installed.',
        remedy: 'Install it.',
      },
    ],
    circuits: () => [circuit],
    resetCircuit: async (key) => {
      if (key !== circuit.key) throw new ToolError('NOT_FOUND', 'There is no such circuit.')
      return true
    },
    keys: createKeyControl(memoryKeys(), async () => undefined),
    policy: {
      read: async () => ({ version: 'fake' }),
      replace: async (document, { principal }) => ({
        version: 'fake+p1',
        stored: { version: 1, document, createdAt: new Date().toISOString(), createdBy: principal },
      }),
      test: async ({ tool, args }, identity) => ({
        version: 'fake',
        ...(await executor.explain(tool, args, { identity })),
      }),
    },
    audit: fakeAudit,
    executor,
    ready: async () => fake.state,
    metrics: async () => ({ type: 'text/plain; version=0.0.4', text: '# TYPE up gauge\nup 1\n' }),
    async close() {
      for (const { stop } of calls.values()) stop.abort(new ToolError('CANCELLED', 'The test is over.'))
      await executor.close({ graceMs: 1 })
    },
  }
  return fake
}

const owner: Identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }

const auditRow = {
  seq: 7,
  at: '2026-01-01T00:00:00.000000Z',
  tenant: 'acme',
  principal: 'alice',
  callId: 'c1',
  phase: 'end',
  tool: 'shop:find:1.0.0',
  fence: 1,
  worker: 'w1',
  status: 'ok',
  config: 'v1',
  details: { times: 2 },
}

/** An audit log with one row and one seal; nothing is verified in it. */
const fakeAudit: Service['audit'] = {
  list: async () => ({ items: [auditRow] }),
  async *export() {
    yield `${JSON.stringify({ kind: 'row', ...auditRow })}\n`
  },
  verify: async () => ({
    ok: true,
    seals: 1,
    rows: 1,
    unsealed: 0,
    head: `1:${'0'.repeat(64)}`,
    findings: [],
    findingsTotal: 0,
    retired: { seal: 1, uptoSeq: 6, at: '2026-01-01T00:00:00.000000Z', proven: false },
  }),
}

const circuit: CircuitSummary = {
  key: 'shop:find @ http:shop',
  state: 'open',
  since: 1,
  calls: 5,
  failures: 5,
  openMs: 1_000,
  retryAt: 2,
  tenants: [{ tenant: 'shop', state: 'open', since: 1, calls: 5, failures: 5, openMs: 1_000, retryAt: 2 }],
}

/** The tool `test:stay`, whose calls run until they are cancelled. */
export function stayingTool(begun: () => void = () => undefined): DefinedTool {
  return defineTool({
    namespace: 'test',
    name: 'stay',
    description: 'Stays until it is cancelled.',
    effect: 'read',
    inputSchema: { type: 'object' },
    async run(_args, { signal }) {
      begun()
      await once(signal, 'abort')
      return {}
    },
  })
}
