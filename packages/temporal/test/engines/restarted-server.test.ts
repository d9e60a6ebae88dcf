import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { attackLimits } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import { createProcessRuntime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { bundleWorkflows, clientOf, createTemporalRuntime, startTemporalWorker } from '@gantry/temporal'
import { startTemporal } from '../../../../scripts/engines/temporal.ts'
import { newTarget } from './temporal.fixture.ts'

const calls = 50

test(`a Temporal server that is restarted under ${calls} running calls gives each one outcome, runs none twice and leaves nothing`, async () => {
  const server = await startTemporal()
  const target = newTarget(server.address)
  const inner = createRuntimes({ runtimes: [createProcessRuntime()], pool: false })
  let [opened, begun] = [0, 0]
  const all = Promise.withResolvers<void>()
  const runtimes: typeof inner = {
    ...inner,
    // The ledger is outside of the system under test.
    async take(...given) {
      opened += 1
      const taken = await inner.take(...given)
      begun += 1
      if (begun === calls) all.resolve()
      // All programs begin together, however long the starts of their sandboxes take.
      await all.promise
      return taken
    },
  }
  const worker = await startTemporalWorker({ target, runtimes, bundle: await bundleWorkflows() })
  const client = clientOf(target)
  const runtime = createTemporalRuntime(async () => client, { heartbeatMs: 30_000, queueMs: 120_000 })
  const run = async (call: number): Promise<unknown> => {
    const limits = { ...attackLimits, wallMs: 120_000, memoryBytes: 128 * 1_048_576 }
    const sandbox = await runtime.open({ language: 'python', limits, network: 'none' }, AbortSignal.timeout(240_000))
    const code = `import time\ntime.sleep(8)\nreturn ${call}`
    const { value } = await sandbox.run(
      { program: { kind: 'code', language: 'python', code } },
      AbortSignal.timeout(240_000),
    )
    return value
  }
  try {
    const running = Promise.allSettled(Array.from({ length: calls }, (_, call) => run(call)))
    await Promise.race([all.promise, running])
    assert.equal(begun, calls, 'all of them run')
    await server.restart()
    const ends = (await running).map((end) =>
      end.status === 'fulfilled' ? end.value : ToolError.is(end.reason) ? end.reason.code : String(end.reason),
    )
    assert.deepEqual(
      ends,
      Array.from({ length: calls }, (_, call) => call),
    )
    assert.equal(opened, calls, 'each program ran once')
    const temporal = await client.get()
    const open = async (): Promise<number> => {
      const query = `ExecutionStatus = 'Running' AND TaskQueue = '${target.taskQueue}-sandboxes'`
      return (await temporal.workflow.count(query)).count
    }
    while ((await open()) > 0) await delay(100)
  } finally {
    await runtime.close()
    await worker.close()
    await inner.close()
    await server.stop()
  }
})
