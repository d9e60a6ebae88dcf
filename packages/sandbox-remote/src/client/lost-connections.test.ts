import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { attackLimits } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { ProgramGateway, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { type CuttingProxy, startCuttingProxy } from '../cutting-proxy.fixture.ts'
import { hostTest, startHost, type TestHost } from '../test-host.fixture.ts'
import { createRemoteRuntime } from './remote.ts'

const python = (code: string): SandboxJob => ({ program: { kind: 'code', language: 'python', code } })
const spec: SandboxSpec = { language: 'python', limits: attackLimits, network: 'none' }
const patience = (): AbortSignal => AbortSignal.timeout(60_000)

interface Behind {
  readonly host: TestHost
  readonly proxy: CuttingProxy
  readonly runtime: Runtime
}

async function behindProxy(t: TestContext, budget?: () => number): Promise<Behind> {
  const host = await startHost({ keepMs: 2_000 })
  const proxy = await startCuttingProxy(Number(new URL(host.url).port), budget)
  const runtime = createRemoteRuntime({ ...host.remote, url: `http://127.0.0.1:${proxy.port}` })
  t.after(async () => {
    await runtime.close()
    await proxy.close()
    await host.close()
  })
  return { host, proxy, runtime }
}

/** Waits until the host has ended a sandbox by itself. */
async function ended({ records }: TestHost): Promise<void> {
  while (!records.some(({ event }) => event === 'ended')) await delay(20)
}

const runsOf = ({ records }: TestHost): number => records.filter(({ event }) => event === 'run').length

hostTest('output that is cut again and again arrives whole and in order, and the program runs once', async (t) => {
  let connections = 0
  // Some connections end within the head of the response, some within a frame, some after several.
  const { host, proxy, runtime } = await behindProxy(t, () => [700, 40_000, 90_000][connections++ % 3] ?? 0)
  const sandbox = await runtime.open(spec, patience())
  const pieces: Uint8Array[] = []
  const job = python('for n in range(20000): print(n, flush=n % 50 == 0)\nreturn "end"')
  const outcome = await sandbox.run({ ...job, onOutput: (_, bytes) => void pieces.push(bytes) }, patience())
  const whole = Array.from({ length: 20_000 }, (_, n) => `${n}\n`).join('')
  assert.equal(Buffer.from(outcome.stdout.bytes).toString(), whole)
  assert.equal(Buffer.concat(pieces).toString(), whole)
  assert.deepEqual([outcome.value, runsOf(host)], ['end', 1])
  assert.ok(proxy.cuts > 0)
})

hostTest('gateway requests and responses survive cuts, each is made and answered once', async (t) => {
  let connections = 0
  const { host, proxy, runtime } = await behindProxy(t, () => [900, 2_500, 600][connections++ % 3] ?? 0)
  const asked: number[] = []
  const gateway: ProgramGateway = {
    ask(questions, answer) {
      for (const { number } of questions) {
        asked.push(number)
        answer({ number, ok: true, text: JSON.stringify(number * 2) })
      }
    },
  }
  const sandbox = await runtime.open({ ...spec, gateway: true }, patience())
  const code = 'total = 0\nfor n in range(25): total += await run("x:y", {"n": n})\nreturn total'
  const { value } = await sandbox.run({ ...python(code), gateway }, patience())
  const numbers = Array.from({ length: 25 }, (_, index) => index + 1)
  assert.deepEqual([value, asked, runsOf(host)], [numbers.reduce((sum, n) => sum + n * 2, 0), numbers, 1])
  assert.ok(proxy.cuts > 0)
})

hostTest('a program whose host cannot be reached any more is unknown, and ends on the host by itself', async (t) => {
  const { host, proxy, runtime } = await behindProxy(t)
  const sandbox = await runtime.open(spec, patience())
  const running = sandbox.run(
    { ...python('import time\nprint("on", flush=True)\ntime.sleep(60)'), onOutput: () => proxy.cut() },
    patience(),
  )
  const outcome = running.catch((error: unknown) => error)
  await ended(host)
  proxy.restore()
  const error = await outcome
  assert.ok(ToolError.is(error), String(error))
  assert.deepEqual([error.code, error.retryable, error.effect, runsOf(host)], ['OUTCOME_UNKNOWN', false, 'possible', 1])
})

hostTest('a job whose sandbox is gone before it was sent did not start, and nothing is unknown', async (t) => {
  const { host, proxy, runtime } = await behindProxy(t)
  const sandbox = await runtime.open(spec, patience())
  proxy.cut()
  await ended(host)
  proxy.restore()
  await assert.rejects(sandbox.run(python('print(1)'), patience()), (error) => {
    assert.ok(ToolError.is(error))
    assert.deepEqual([error.code, error.effect, runsOf(host)], ['SANDBOX_INIT_FAILED', 'none', 0])
    return true
  })
})
