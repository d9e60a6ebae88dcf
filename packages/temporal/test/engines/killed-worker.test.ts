import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { attackLimits } from '@gantry/conformance/internal/attacks/attack'
import { type Json, ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/core'
import { readLayout } from '@gantry/sandbox/internal/process/cgroup-trees'
import { clientOf, createTemporalEngine, createTemporalRuntime } from '@gantry/temporal'
import { approvalRecords } from '../../../service/src/storage/approvals/approvals.ts'
import { postgresDatabase } from '../../../service/test/databases.fixture.ts'
import { ledgerFolder, startServe } from '../../../service/test/serve.fixture.ts'
import { killProgram } from './kill-tools.fixture.ts'
import { newTarget, workerStarter } from './temporal.fixture.ts'

const programs = 10
const bob = { principal: 'bob', tenant: 'default', permissions: ['gantry:approve'] }

/** A system that runs a program in workers that can be killed. */
interface Site {
  /** The lines of the ledger. */
  ran(): readonly string[]
  submit(code: string): Promise<void>
  /** Kills the worker by SIGKILL and starts another one. */
  replaceWorker(): Promise<void>
  /** Whether a call waits for approval. */
  asks(): Promise<boolean>
  approve(): Promise<void>
  end(): Promise<{ readonly status: string; readonly output: Json }>
}

async function eventually(t: TestContext, holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(50, undefined, { signal: t.signal })
}

/** The same kills at the same points. */
async function story(t: TestContext, site: Site) {
  await site.submit(killProgram)
  await eventually(t, () => site.ran().includes('slow 1'))
  await site.replaceWorker()
  await eventually(t, () => site.ran().includes('hold 2'))
  await site.replaceWorker()
  await eventually(t, () => site.ran().includes('send 3'))
  await site.replaceWorker()
  await eventually(t, site.asks)
  await site.replaceWorker()
  await site.approve()
  return { ...(await site.end()), ran: site.ran() }
}

async function onTemporal(t: TestContext): Promise<Site> {
  const target = newTarget()
  const { folder, ran } = ledgerFolder(t, () => 'export default {}')
  const start = await workerStarter(t, target, join(folder, 'ran.log'))
  const client = clientOf(target)
  const engine = createTemporalEngine(async () => client, { heartbeatMs: 2_000 })
  const gantry = createExecutor({ engines: { temporal: engine } })
  t.after(() => gantry.close())
  const callId = `killed-${target.taskQueue}`
  const identity = { principal: 'ann', tenant: 'default', permissions: ['*'] }
  let worker = await start()
  let running: ReturnType<typeof gantry.code> | undefined
  const asked = () => engine.approvals(callId).catch(() => [])
  return {
    ran,
    async submit(code) {
      running = gantry.code(code, { engine: 'temporal', language: 'javascript', callId, identity })
    },
    async replaceWorker() {
      worker.kill('SIGKILL')
      await once(worker, 'exit')
      worker = await start()
    },
    asks: async () => (await asked()).length > 0,
    async approve() {
      for (const { approvalId } of await asked()) await engine.decide(callId, { approvalId, approved: true, by: 'bob' })
    },
    async end() {
      const { status, output = null } = (await running) ?? { status: 'never' }
      return { status, output }
    },
  }
}

async function onOwnJournal(t: TestContext): Promise<Site> {
  const { url, database } = await postgresDatabase(t)
  const tools = join(import.meta.dirname, 'kill-tools.fixture.ts')
  const { folder, ran } = ledgerFolder(
    t,
    (ledger) => `import { killTools } from ${JSON.stringify(tools)}
export default { service: { leaseMs: 4_000, maxDeaths: 10 }, tools: killTools(${ledger}) }`,
  )
  const environment = { DATABASE_URL: url }
  const start = (role: string) => startServe(t, folder, { args: ['--role', role], environment })
  const api = start('api')
  await api.ready
  let worker = start('worker')
  await worker.ready
  const approvals = approvalRecords(database)
  let callId = ''
  const open = async () => (await approvals.list({ limit: 10 }, bob)).items
  return {
    ran,
    async submit(code) {
      const args = { code, language: 'javascript' }
      callId = (await api.post('/v1/calls', { tool: 'code:program', args, waitMs: 0 })).value.callId
    },
    async replaceWorker() {
      worker.child.kill('SIGKILL')
      await worker.ended
      worker = start('worker')
      await worker.ready
    },
    async asks() {
      const { value } = await api.get(`/v1/calls/${callId}`)
      assert.equal(value.result, undefined, JSON.stringify(value.result))
      // Its worker has let go of it then; a kill before that would count against the call.
      return value.state === 'asked' && (await open()).length > 0
    },
    async approve() {
      for (const { id } of await open()) await approvals.decide(id, { decision: 'approve' }, bob)
    },
    async end() {
      for (;;) {
        const { value } = await api.get(`/v1/calls/${callId}?waitMs=20000`)
        if (value.result !== undefined) return { status: value.result.status, output: value.result.output }
      }
    },
  }
}

test('a program with an approval in it has the same outcome on Temporal and on our own journal after the same kills', async (t) => {
  const expected = {
    status: 'ok',
    output: { slow: 1, held: 'OUTCOME_UNKNOWN', sent: 'sent', paid: 4 },
    // A read is repeated, a call with an effect is not, and one that can be looked up is.
    ran: ['slow 1', 'slow 1', 'hold 2', 'send 3', 'lookup of send', 'pay 4'],
  }
  assert.deepEqual(await story(t, await onOwnJournal(t)), expected, 'on our own journal')
  assert.deepEqual(await story(t, await onTemporal(t)), expected, 'on Temporal')
})

/** Processes in control groups of the sandboxes that a worker had. */
function processesOf(worker: number): readonly string[] {
  const trees = readLayout(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'))
  const files = trees.flatMap(({ folder }) => globSync(join(folder, `gantry-${worker}-*/**/cgroup.procs`)))
  return files.flatMap((file) => {
    try {
      return readFileSync(file, 'utf8').split('\n').filter(Boolean)
    } catch {
      // The group was removed meanwhile.
      return []
    }
  })
}

test(`a worker that is killed under ${programs} running programs leaves each outcome unknown, and nothing else; none runs twice`, async (t) => {
  const target = newTarget()
  const start = await workerStarter(t, target, '/dev/null')
  const client = clientOf(target)
  const runtime = createTemporalRuntime(async () => client, { heartbeatMs: 3_000 })
  t.after(() => runtime.close())
  const worker = await start()
  const printed = new Map<number, string>()
  const run = async (call: number): Promise<unknown> => {
    const limits = { ...attackLimits, wallMs: 120_000 }
    const sandbox = await runtime.open({ language: 'python', limits, network: 'none' }, t.signal)
    const code = 'import time\nprint("begun", flush=True)\ntime.sleep(100)'
    const onOutput = (_: string, bytes: Uint8Array): void => {
      printed.set(call, (printed.get(call) ?? '') + Buffer.from(bytes).toString())
    }
    return sandbox.run({ program: { kind: 'code', language: 'python', code }, onOutput }, t.signal)
  }
  const running = Promise.allSettled(Array.from({ length: programs }, (_, call) => run(call)))
  await eventually(t, () => printed.size === programs)
  worker.kill('SIGKILL')
  await once(worker, 'exit')
  await start()
  const codes = (await running).map((end) =>
    end.status === 'rejected' && ToolError.is(end.reason) ? end.reason.code : JSON.stringify(end),
  )
  assert.deepEqual(
    codes,
    Array.from({ length: programs }, () => 'OUTCOME_UNKNOWN'),
  )
  assert.deepEqual(
    [...printed.values()],
    Array.from({ length: programs }, () => 'begun\n'),
  )
  await eventually(t, () => processesOf(worker.pid ?? 0).length === 0)
  const temporal = await client.get()
  const query = `ExecutionStatus = 'Running' AND TaskQueue = '${target.taskQueue}-sandboxes'`
  await eventually(t, async () => (await temporal.workflow.count(query)).count === 0)
})

test('a worker that is shut down under a call gives it to the next one, and a call with an effect ends as unknown', async (t) => {
  const target = newTarget()
  const { folder, ran } = ledgerFolder(t, () => 'export default {}')
  const start = await workerStarter(t, target, join(folder, 'ran.log'))
  const client = clientOf(target)
  const gantry = createExecutor({ engines: { temporal: createTemporalEngine(async () => client) } })
  t.after(() => gantry.close())
  const stop = async (worker: ChildProcess): Promise<void> => {
    worker.kill('SIGTERM')
    assert.deepEqual(await once(worker, 'exit'), [0, null])
  }
  const first = await start()
  const steps = [
    { id: 'one', tool: 'my:slow', args: { n: 1 } },
    { id: 'two', tool: 'my:hold', args: { n: 2 } },
  ]
  const running = gantry.chain(steps, { engine: 'temporal' })
  await eventually(t, () => ran().includes('slow 1'))
  await stop(first)
  const second = await start()
  await eventually(t, () => ran().includes('hold 2'))
  await stop(second)
  await start()
  const { status, error } = await running
  assert.deepEqual([status, error?.code], ['unknown', 'OUTCOME_UNKNOWN'])
  assert.deepEqual(ran(), ['slow 1', 'slow 1', 'hold 2'])
})
