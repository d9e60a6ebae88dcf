import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { fakeRuntime, never, settled } from '../runtimes/fake.fixture.ts'
import { defaultLimits } from '../selection/limits.ts'
import { openSandbox, startThrice } from './pool.ts'
import { systemTiming } from './timing.ts'

const atOnce = (): number => 0
const failed = (): ToolError => new ToolError('SANDBOX_INIT_FAILED', 'bwrap: no such file')

test('a start that fails twice is attempted a third time', async () => {
  const work = async (attempt: number): Promise<string> => {
    if (attempt < 3) throw failed()
    return 'up'
  }
  assert.deepEqual(await startThrice('process', work, never, atOnce), { value: 'up', attempts: 3 })
})

test('after three failed starts the last failure is the cause, and the number of attempts is reported', async () => {
  const failures: ToolError[] = []
  const work = async (): Promise<never> => {
    failures.push(failed())
    throw failures.at(-1)
  }
  await assert.rejects(startThrice('process', work, never, atOnce), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED' && error.effect === 'none')
    assert.equal(error.cause, failures[2])
    assert.deepEqual(error.details, { runtime: 'process', attempts: 3, reason: 'bwrap: no such file' })
    return true
  })
  assert.equal(failures.length, 3)
})

test('errors other than SANDBOX_INIT_FAILED are not retried', async () => {
  for (const thrown of [
    new ToolError('RUNTIME_UNAVAILABLE', 'no'),
    new ToolError('BACKEND_FAILED', 'no'),
    new Error('no'),
  ]) {
    let calls = 0
    const work = async (): Promise<never> => {
      calls += 1
      throw thrown
    }
    await assert.rejects(startThrice('process', work, never, atOnce), (error) => error === thrown)
    assert.equal(calls, 1)
  }
})

test('an abort during the delay between starts rejects with the signal’s reason', async () => {
  const controller = new AbortController()
  const reason = new Error('gone')
  let calls = 0
  const work = async (): Promise<never> => {
    calls += 1
    queueMicrotask(() => controller.abort(reason))
    throw failed()
  }
  await assert.rejects(
    startThrice('process', work, controller.signal, () => 1),
    (error) => error === reason,
  )
  assert.equal(calls, 1)
})

test('an abort during the last failed start rejects with the signal’s reason', async () => {
  const controller = new AbortController()
  const reason = new Error('gone')
  const work = async (attempt: number): Promise<never> => {
    if (attempt === 3) controller.abort(reason)
    throw failed()
  }
  await assert.rejects(startThrice('process', work, controller.signal, atOnce), (error) => error === reason)
})

test('any error that a runtime throws on open becomes SANDBOX_INIT_FAILED, except the signal’s reason', async () => {
  const spec = { limits: defaultLimits, network: 'none' } as const
  const broken = fakeRuntime({
    onOpen: () => {
      throw new TypeError('undefined is not a sandbox')
    },
  })
  await assert.rejects(openSandbox(broken, spec, never), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED' && error.cause instanceof TypeError)
    return true
  })
  const reason = new Error('gone')
  await assert.rejects(openSandbox(broken, spec, AbortSignal.abort(reason)), (error) => error === reason)
})

test('a systemTiming timer does not keep the process alive and can be cancelled', async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  const callOff = systemTiming.after(60_000, () => undefined)
  assert.equal(timers(), before)
  callOff()
  let done = 0
  systemTiming.after(0, () => assert.fail('it was called off'))()
  await new Promise<void>((resolve) => {
    systemTiming.after(0, () => {
      done += 1
      resolve()
    })
    setTimeout(() => undefined, 10)
  })
  await settled()
  assert.equal(done, 1)
})
