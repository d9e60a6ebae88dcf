import { type EffectClass, type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { postgresTransport } from '../../src/brokers/transports/postgres.ts'
import type { Transport } from '../../src/brokers/transports/transport.ts'
import { createSnapshots } from '../../src/config/snapshots.ts'
import { createBus } from '../../src/observe/bus.ts'
import type { AdmittedCall, CallStore, Claim, ClaimOptions, Ending } from '../../src/storage/calls/call-store.ts'
import { type MemoryCallStore, memoryCallStore } from '../../src/storage/calls/memory.ts'
import { certainClaim } from '../../src/storage/calls/sql/submit.ts'
import { stub } from '../../src/stub.fixture.ts'
import { extendHeld } from '../../src/worker/lease/leases.ts'
import type { WorkerPorts } from '../../src/worker/ports.ts'
import { createRecorder } from '../../src/worker/record/recorder.ts'
import type { Spool } from '../../src/worker/record/spool.ts'
import { createToolOffers, type ToolOffers } from '../../src/worker/upkeep.ts'
import { someResult } from '../../src/worker/worker.fixture.ts'
import { createWorker, type Worker } from '../../src/worker/worker.ts'
import { type Actor, createWorld, gated, type World } from './world.ts'

/** A deliberate defect, to check that the simulation finds it. */
export interface Mutation {
  readonly store?: (store: CallStore) => CallStore
  readonly ports?: (ports: WorkerPorts) => WorkerPorts
}

/** The effects seen from outside, recorded independently of the code under test. */
interface Ledgers {
  /** `again`: every earlier holder that acted was dead and held an older fence, and the tool was not asked. */
  readonly effects: {
    readonly callId: string
    readonly actor: Actor
    readonly fence: number
    readonly again: boolean
  }[]
  /** Pairs of actor and call for which `reconcile` ran. */
  readonly asked: Set<string>
  readonly replies: { readonly callId: string; readonly status: string }[]
  /** The approvals, by call. */
  readonly questions: Map<string, Question>
  /** Outcomes that the store accepted. */
  readonly accepted: { readonly callId: string; readonly status: string; readonly effect: string }[]
}

/** A row of the approvals: decided once, by a person in time or by its expiry. */
interface Question {
  state: 'open' | 'approve' | 'deny' | 'expired'
  readonly until: number
}

const leaseMs = 1_000
const askedMs = 1_500
const versionMs = 2_500
/** A tool whose calls a person must approve. */
const askingTool = 'sim:ask:1.0.0'
const effects: readonly EffectClass[] = ['read', 'keyed', 'once', 'reconcilable', 'repeatable']

/** Runs one schedule to its end and returns the broken invariants. The same seed is the same schedule. */
export async function simulate(seed: number, mutation: Mutation = {}): Promise<readonly string[]> {
  const world = createWorld(seed)
  const ledgers: Ledgers = {
    effects: [],
    asked: new Set(),
    replies: [],
    accepted: [],
    questions: new Map(),
  }
  const plain = memoryCallStore({ now: world.now })
  const store = mutation.store?.(plain) ?? plain
  const spools = new Map<string, Ending[]>()
  const ahead: AdmittedCall[] = []
  const calls = Array.from({ length: 1 + Math.floor(world.random() * 4) }, (_, n) => someCall(world, n))
  await store.submit(calls)
  const hosts = Array.from({ length: 1 + Math.floor(world.random() * 2) }, (_, n) => `h${n}`)
  let born = 0
  const start = (host: string): Process => {
    born += 1
    return startProcess({ name: `${host}.${born}`, dead: false }, host, { world, store, spools, ledgers, mutation })
  }
  const living = new Map(hosts.map((host) => [host, start(host)]))
  let crashes = Math.floor(world.random() * 6)
  let faults = world.chance(0.5) ? 0.05 : 0
  for (const process of living.values()) process.faults = () => faults

  for (let steps = 0; steps < 120; steps++) {
    const luck = world.random()
    if (luck < 0.05 && crashes > 0) {
      crashes -= 1
      const host = hosts[Math.floor(world.random() * hosts.length)] ?? ''
      living.get(host)?.kill()
      const next = start(host)
      next.faults = () => faults
      living.set(host, next)
    } else if (luck < 0.15) world.advance(Math.floor(world.random() * leaseMs))
    else if (luck < 0.17) await cancel(pick(calls, world).callId, store, ledgers)
    else if (luck < 0.25) await decide(pick(calls, world).callId, store, ledgers, world)
    else if (luck < 0.27) ahead.push(living.get(pick(hosts, world))?.handInAhead(ahead.length) as AdmittedCall)
    else if (!(await world.step())) world.advance(100)
  }
  faults = 0
  /** A call submitted ahead that never reached the store was rejected, and is not checked. */
  const all = (): AdmittedCall[] => [...calls, ...ahead.filter(({ callId }) => hasStarted(plain, callId))]
  const done = (): boolean => all().every(({ callId }) => ledgers.accepted.some((ending) => ending.callId === callId))
  for (let steps = 0; steps < 3_000 && !done(); steps++) {
    if (!(await world.step()) || steps % 20 === 0) world.advance(200)
  }
  for (const process of living.values()) process.kill()
  return broken(all(), ledgers)
}

function hasStarted({ records }: MemoryCallStore, callId: string): boolean {
  return records.audit.some((row) => row.callId === callId)
}

async function cancel(callId: string, store: CallStore, { accepted }: Ledgers): Promise<void> {
  const fate = await store.cancel(callId, 'acme')
  if (fate === 'ended') accepted.push({ callId, status: 'cancelled', effect: 'none' })
}

/** The decision and the resumption are one transaction. */
async function decide(callId: string, store: CallStore, { questions }: Ledgers, world: World): Promise<void> {
  const question = questions.get(callId)
  if (question?.state !== 'open' || question.until <= world.now()) return
  question.state = world.chance(0.8) ? 'approve' : 'deny'
  await store.resume(callId)
}

function pick<T>(list: readonly T[], world: World): T {
  return list[Math.floor(world.random() * list.length)] as T
}

function someCall(world: World, n: number): AdmittedCall {
  return {
    callId: `c${n}`,
    kind: 'call',
    identity: { principal: 'ada', tenant: 'acme', permissions: [] },
    key: `k${n}`,
    fingerprint: `f${n}`,
    tool: world.chance(0.4) ? askingTool : 'sim:it:1.0.0',
    effect: pick(effects, world),
    payload: '{}',
    payloadBytes: 2,
    ...(world.chance(0.1) ? { delayMs: 500 } : {}),
    ...(world.chance(0.1) ? { deadlineMs: 2_000 } : {}),
    ...(world.chance(0.2) ? { slot: { key: 's', limit: 1 } } : {}),
  }
}

interface Parts {
  readonly world: World
  readonly store: CallStore
  readonly spools: Map<string, Ending[]>
  readonly ledgers: Ledgers
  readonly mutation: Mutation
}

interface Process {
  faults: () => number
  /** Submits a `read` call, and executes it while its insert is in flight. */
  handInAhead(n: number): AdmittedCall
  kill(): void
}

/** A real worker over a simulated store, disk and tools, each behind gates. */
function startProcess(actor: Actor, host: string, { world, store, spools, ledgers, mutation }: Parts): Process {
  const process: Process = {
    faults: () => 0,
    handInAhead(n) {
      const { key: _, slot: __, ...rest } = someCall(world, n)
      const { delayMs: ___, deadlineMs: ____, ...call } = rest
      const read: AdmittedCall = { ...call, callId: `a${n}`, effect: 'read' }
      const { claims, submitted } = line.submitAhead([read], { worker: actor.name, leaseMs })
      submitted.catch(() => undefined)
      worker.take(claims)
      return read
    },
    kill() {
      actor.dead = true
    },
  }
  const line = withLine(gated(watched(store, ledgers), actor, world, () => process.faults()))
  const behind: CallStore = line
  const disk = spools.get(host) ?? []
  spools.set(host, disk)
  const bus = createBus()
  const recorder = createRecorder({
    store: behind,
    spool: memorySpool(disk, actor, world),
    bus,
    batch: { soon: queueMicrotask, atOnce: 2 },
  })
  // A process that lacks a tool version, as in the middle of a deploy.
  const other = world.chance(0.2)
  const lacks = (tool: string): boolean => other && tool === askingTool
  const missing = async (tool: string) =>
    lacks(tool) ? new ToolError('TOOL_NOT_FOUND', tool, { effect: 'none' }) : undefined
  const offers = createToolOffers({ current: { executor: { missing } } })
  const claim = () => ({ worker: actor.name, leaseMs, labels: offers.labels })
  const transport = simTransport(behind, claim, actor, world)
  const ports: WorkerPorts = {
    store: behind,
    transport,
    recorder,
    leases: (news) => {
      const held = new Map<string, number>()
      let before: ReadonlyMap<string, number> = new Map()
      const beat = async (): Promise<void> => {
        while (!actor.dead) {
          await world.gate(actor)
          const now = new Map(held)
          if (held.size > 0) await extendHeld(behind, leaseMs, held, news, before)
          before = now
        }
      }
      void beat()
      return {
        hold(holders) {
          for (const { callId, fence } of holders) held.set(callId, fence)
        },
        drop(callIds) {
          for (const callId of callIds) held.delete(callId)
        },
        close: async () => undefined,
      }
    },
    snapshots: createSnapshots({ executor: simExecutor(actor, world, ledgers), version: 'v1' }),
    versions: {
      missing: async (_snapshot, { tool }) =>
        lacks(tool) ? { need: tool, error: new ToolError('TOOL_NOT_FOUND', tool, { effect: 'none' }) } : undefined,
      waitMs: versionMs,
    },
    begin: async (holder) => (await behind.begin([holder])).length === 1,
    execute: (_snapshot, { claim, controller }) => useTool(claim, controller.signal, actor, world, ledgers),
    offload: async (_task, result) => ({ result, text: JSON.stringify(result), bytes: 1 }),
    reply: ({ callId }, { result }) => void ledgers.replies.push({ callId, status: result.status }),
    bus,
    now: () => new Date(world.now()),
    random: world.random,
    pause: () => world.gate(actor),
  }
  const worker: Worker = createWorker(mutation.ports?.(ports) ?? ports, { slots: 3, maxDeaths: 3, ahead: 0 })
  worker.start()
  void keepUp(behind, recorder.drain, transport, offers, actor, world)
  return process
}

/** Executes a call while its insert is in flight; its outcome waits for the insert. */
function withLine(store: CallStore) {
  const entering = new Map<string, Promise<unknown>>()
  return {
    ...store,
    submitAhead(calls: readonly AdmittedCall[], claim: ClaimOptions) {
      const submitted = store.submit(calls, claim, { unflushed: true })
      for (const { callId } of calls) entering.set(callId, submitted)
      return { claims: calls.map((call) => ({ ...certainClaim(call), entering: submitted })), submitted }
    },
    async finish(endings: readonly Ending[]) {
      await Promise.allSettled(endings.map(({ callId }) => entering.get(callId)))
      return store.finish(endings)
    },
  }
}

/** Records the outcomes that the store accepted. */
function watched(store: CallStore, ledgers: Ledgers): CallStore {
  const note = (endings: readonly Ending[], accepted: readonly string[]): readonly string[] => {
    for (const { callId, result } of endings) {
      if (!accepted.includes(callId)) continue
      ledgers.accepted.push({ callId, status: result.status, effect: result.error?.effect ?? 'possible' })
    }
    return accepted
  }
  return {
    ...store,
    finish: async (endings) => note(endings, await store.finish(endings)),
    reclaim: async (options) => {
      const reclaimed = await store.reclaim(options)
      for (const callId of reclaimed.expired) ledgers.accepted.push({ callId, status: 'timeout', effect: 'none' })
      return reclaimed
    },
  }
}

async function keepUp(
  store: CallStore,
  drain: () => Promise<void>,
  transport: Transport,
  offers: ToolOffers,
  actor: Actor,
  world: World,
): Promise<void> {
  while (!actor.dead) {
    await world.gate(actor)
    try {
      await drain()
      const { wanted = [] } = await store.reclaim({ max: 10 })
      const here = await offers.look(wanted)
      if (here.length > 0) await store.offer(here, 10)
      transport.wake()
    } catch {
      // The next round retries.
    }
  }
}

function simTransport(store: CallStore, claim: () => ClaimOptions, actor: Actor, world: World): Transport {
  const inner = postgresTransport({ store, claim })
  return {
    ...inner,
    async receive(max) {
      for (;;) {
        const claims = await store.claim(max, claim())
        if (claims.length > 0) {
          return claims.map((claim) => ({
            id: claim.callId,
            body: { kind: 'claimed' as const, claim },
            deliveries: claim.deliveries,
          }))
        }
        await world.gate(actor)
      }
    },
  }
}

/** Has its effect between two gates, so that a worker may die before, between and after. */
async function useTool(
  { callId, call, fence }: Claim,
  signal: AbortSignal,
  actor: Actor,
  world: World,
  ledgers: Ledgers,
): Promise<Result> {
  const { effects, asked } = ledgers
  await world.gate(actor)
  const cancelled = { code: 'CANCELLED', message: '', stage: 'execute', retryable: false } as const
  if (signal.aborted) return someResult({ callId, status: 'cancelled', error: { ...cancelled, effect: 'none' } })
  const refusal = call.tool === askingTool ? await ask(callId, actor, world, ledgers) : undefined
  if (refusal !== undefined) return someResult({ callId, status: 'denied', error: refusal })
  if (signal.aborted) return someResult({ callId, status: 'cancelled', error: { ...cancelled, effect: 'none' } })
  const before = effects.filter((act) => act.callId === callId)
  const known = asked.has(`${actor.name} ${callId}`)
  const successor = before.length > 0 && before.every((act) => act.actor.dead && act.fence < fence)
  effects.push({ callId, actor, fence, again: !known && successor })
  await world.gate(actor)
  if (signal.aborted) return someResult({ callId, status: 'cancelled', error: { ...cancelled, effect: 'possible' } })
  return someResult({ callId })
}

/** The error of the pipeline for a call that needs approval; undefined once it is approved. */
async function ask(callId: string, actor: Actor, world: World, { questions }: Ledgers): Promise<ErrorInfo | undefined> {
  await world.gate(actor)
  const question = questions.get(callId) ?? { state: 'open', until: world.now() + askedMs }
  questions.set(callId, question)
  if (question.state === 'open' && question.until <= world.now()) question.state = 'expired'
  const { state, until } = question
  const expiresMs = until - world.now()
  await world.gate(actor)
  if (state === 'approve') return undefined
  const refused = { message: '', stage: 'authorize', retryable: false, effect: 'none' } as const
  if (state === 'open') return { code: 'APPROVAL_REQUIRED', details: { approvalId: callId, expiresMs }, ...refused }
  return { code: 'DENIED', ...refused }
}

function simExecutor(actor: Actor, world: World, { effects, asked }: Ledgers): Executor {
  const reconcile: Executor['reconcile'] = async (_tool, _key, options) => {
    await world.gate(actor)
    const callId = options?.callId ?? ''
    asked.add(`${actor.name} ${callId}`)
    if (world.chance(0.1)) return { state: 'unknown', reason: 'unavailable' }
    const found = effects.some((effect) => effect.callId === callId)
    return found ? { state: 'found', result: someResult({ callId }) } : { state: 'absent' }
  }
  return stub<Executor>({ reconcile, close: async () => undefined })
}

function memorySpool(disk: Ending[], actor: Actor, world: World): Spool {
  return {
    get depth() {
      return disk.length
    },
    async add(endings) {
      await world.gate(actor)
      disk.push(...endings)
      await world.gate(actor)
    },
    probe: async () => undefined,
    async drain(work) {
      while (disk.length > 0) {
        const next = disk.slice(0, 2)
        await work(next)
        disk.splice(0, next.length)
      }
    },
  }
}

/** The invariants: no call is lost, each has one outcome, no `once` effect repeats, and every reply is true. */
function broken(calls: readonly AdmittedCall[], { effects, replies, accepted, questions }: Ledgers): string[] {
  return calls.flatMap(({ callId, effect, tool }) => {
    const found: string[] = []
    const ends = accepted.filter((ending) => ending.callId === callId)
    const acts = effects.filter((act) => act.callId === callId).length
    const [end] = ends
    if (ends.length === 0) found.push(`${callId} (${effect}) has no outcome`)
    if (ends.length > 1)
      found.push(`${callId} (${effect}) has ${ends.length} outcomes: ${ends.map(({ status }) => status)}`)
    if (acts > 1 && effect === 'once') found.push(`${callId} (${effect}) acted ${acts} times`)
    // A late holder that is alive may act after its successor; only the tool itself could refuse that.
    const again = effects.some((act) => act.callId === callId && act.again)
    if (again && effect === 'reconcilable') found.push(`${callId} (${effect}) acted again`)
    if (end !== undefined && end.status === 'ok' && acts === 0) found.push(`${callId} is said to be done and is not`)
    const harmless = end !== undefined && end.status !== 'ok' && end.effect === 'none'
    if (harmless && acts > 0 && effect !== 'read') found.push(`${callId} (${effect}) is said not to have acted and did`)
    const decided = questions.get(callId)?.state
    if (tool === askingTool && acts > 0 && decided !== 'approve')
      found.push(`${callId} (${effect}) acted without approval`)
    if (end?.status === 'denied' && decided !== 'deny' && decided !== 'expired')
      found.push(`${callId} (${effect}) is denied although it is ${decided}`)
    for (const { status } of replies.filter((reply) => reply.callId === callId)) {
      if (status !== end?.status) found.push(`${callId}: the caller heard ${status}, the store says ${end?.status}`)
    }
    return found
  })
}
