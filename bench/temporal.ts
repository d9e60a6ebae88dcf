import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { ChainStep, Json, SandboxLimits } from '@gantry/contract'
import { createExecutor, defineTool } from '@gantry/core'
import { createProcessRuntime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import {
  bundleWorkflows,
  clientOf,
  createTemporalEngine,
  createTemporalRuntime,
  createWorkApprovals,
  startTemporalWorker,
  type TemporalTarget,
} from '@gantry/temporal'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Worker } from '@temporalio/worker'
import { startTemporal } from '../scripts/engines/temporal.ts'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, type Section } from './report.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 33_554_432,
  stdoutBytes: 1_048_576,
  stderrBytes: 1_048_576,
}
const never = new AbortController().signal
const [programRounds, chainRounds] = [40, 20]
const warmRounds = 5
const calls = 10
const job = { program: { kind: 'code', language: 'python', code: 'print(6*7)' } } as const

/** The same programs and the same calls as activities of the bare SDK, and through Gantry, by turns on one server. */
export async function temporal(): Promise<Section> {
  const server = await startTemporal()
  const closing: (() => Promise<unknown>)[] = [server.stop]
  try {
    const target: TemporalTarget = {
      address: server.address,
      namespace: 'default',
      taskQueue: 'gantry',
      payloadKeys: [randomBytes(32)],
    }
    const inner = createRuntimes({ runtimes: [createProcessRuntime()], pool: { min: 1, max: 1, maxIdleMs: 3_600_000 } })
    closing.unshift(inner.close)
    const add = defineTool({
      namespace: 'bench',
      name: 'add',
      effect: 'read',
      description: 'Adds one.',
      inputSchema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
      run: ({ a }) => Number(a) + 1,
    })
    const approvals = createWorkApprovals()
    const executor = createExecutor({ tools: [add], approver: approvals.approver })
    closing.unshift(executor.close)
    const bundle = await bundleWorkflows()
    const worker = await startTemporalWorker({ target, runtimes: inner, work: { executor, approvals }, bundle })
    closing.unshift(worker.close)
    const bareProgram = await startBare(server.address, 'bare-program', async () => {
      const { outcome } = await inner.run({ ...job, limits, profile: 'dev' }, never)
      return outcome.exit
    })
    closing.unshift(bareProgram.close)
    const bareCall = await startBare(server.address, 'bare-call', async (last) => {
      const { output } = await executor.run('bench:add', { a: last })
      return output
    })
    closing.unshift(bareCall.close)
    const client = clientOf(target)
    const runtimes = createRuntimes({ runtimes: [createTemporalRuntime(async () => client)], pool: false })
    const engine = createTemporalEngine(async () => client)
    const gantry = createExecutor({ engines: { temporal: engine } })
    closing.unshift(gantry.close, runtimes.close)
    const steps: ChainStep[] = Array.from({ length: calls }, (_, index) => ({
      id: `s${index}`,
      tool: 'bench:add',
      args: { a: index === 0 ? 0 : '{{prev}}' },
    }))
    const programs = await byTurns('programs', programRounds, [
      () => bareProgram.run(1),
      () => runtimes.run({ ...job, limits }, never),
    ])
    const chains = await byTurns('chains', chainRounds, [
      () => bareCall.run(calls),
      async () => {
        const { error } = await gantry.chain(steps, { engine: 'temporal' })
        if (error !== undefined) throw new Error(error.message)
      },
    ])
    return {
      title: 'Temporal',
      tables: [
        table('pooled Python prints a number', ['an activity of the bare SDK', 'the runtime temporal'], programs),
        table(
          `${calls} calls, one after the other`,
          ['activities of the bare SDK', 'a chain on the engine temporal'],
          chains,
        ),
      ],
      notes: [
        `${programRounds} programs and ${chainRounds} chains of each, one at a time, by turns, on one development server with its database in a file. The activities of the bare SDK do the same: they run the program in the same pool, and make the call by the same executor. Through Gantry payloads are compressed and sealed, and a chain has its journal.`,
      ],
    }
  } finally {
    for (const close of closing) await close()
  }
}

type Times = readonly (readonly number[])[]

async function byTurns(what: string, rounds: number, subjects: readonly (() => Promise<unknown>)[]): Promise<Times> {
  const times = subjects.map((): number[] => [])
  for (let round = -warmRounds; round < rounds; round += 1) {
    progress(`temporal: ${what}, ${Math.max(0, round + 1)} of ${rounds}`)
    for (const [index, subject] of subjects.entries()) {
      const before = performance.now()
      await subject()
      if (round >= 0) times[index]?.push(performance.now() - before)
    }
  }
  return times
}

function table(what: string, names: readonly string[], times: Times): Section['tables'][number] {
  const bare = median(times[0] ?? [])
  return {
    head: [what, 'p50 ms', 'p5 ms', 'p95 ms', 'of the bare SDK', 'target'],
    rows: names.map((name, index) => {
      const own = times[index] ?? []
      const ratio = index === 0 ? '' : figure(median(own) / bare)
      return [
        name,
        figure(median(own)),
        figure(quantile(own, 0.05)),
        figure(quantile(own, 0.95)),
        ratio,
        index === 0 ? '' : '≤ 1.2',
      ]
    }),
  }
}

/** A worker and a client as the documentation of the SDK starts them. */
async function startBare(address: string, taskQueue: string, work: (last: Json) => Promise<Json>) {
  const workflowsPath = fileURLToPath(new URL('./temporal-workflows.ts', import.meta.url))
  const workflowBundle = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') })
  const connection = await NativeConnection.connect({ address })
  const worker = await Worker.create({ connection, taskQueue, workflowBundle, activities: { work } })
  const ended = worker.run()
  const client = new Client({ connection: await Connection.connect({ address }) })
  let runs = 0
  return {
    run: (count: number): Promise<unknown> => {
      runs += 1
      return client.workflow.execute('bare', { taskQueue, workflowId: `${taskQueue}-${runs}`, args: [count] })
    },
    async close(): Promise<void> {
      worker.shutdown()
      await ended
      await client.connection.close()
      await connection.close()
    },
  }
}
