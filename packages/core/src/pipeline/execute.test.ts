import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { type EffectClass, ToolError } from '@gantry/contract'
import { createExecutor } from '../executor.ts'
import { never, tool } from './pipeline.fixture.ts'

test('the caller gets a timeout on time from a tool that ignores its signal', async () => {
  const gantry = createExecutor({ tools: [tool(never)] })
  const result = await gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.equal(result.status, 'timeout')
  assert.equal(result.error?.code, 'TIMEOUT')
  assert.equal(result.error?.effect, 'possible')
  assert.equal(result.usage.hit, 'wallMs')
  await gantry.close()
})

test('a late result does not change the outcome and is only emitted as call:late', async () => {
  const late = Promise.withResolvers<unknown>()
  const gantry = createExecutor({
    tools: [
      tool(async (_args, context) => {
        await late.promise
        context.progress(1)
        context.send('too late')
        return 'late'
      }),
    ],
  })
  const reported = Promise.withResolvers<string>()
  gantry.on('call:late', ({ ended }) => reported.resolve(ended))
  const reports: unknown[] = []
  gantry.on('call:reported', (event) => reports.push(event))
  const result = await gantry.run('test:it', {}, { timeoutMs: 5 })
  const seen = structuredClone(result)
  late.resolve(undefined)
  assert.equal(await reported.promise, 'returned')
  assert.deepEqual(result, seen)
  assert.deepEqual(reports, [])
})

test('a cancelled or timed-out call keeps its status whatever the tool throws on abort', async () => {
  const rude = tool(async (_args, { signal }) => {
    await once(signal, 'abort')
    throw new Error('something else entirely')
  })
  const gantry = createExecutor({ tools: [rude] })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  const controller = new AbortController()
  const running = gantry.run('test:it', {}, { signal: controller.signal })
  controller.abort(new Error('user left'))
  const cancelled = await running
  assert.equal(cancelled.status, 'cancelled')
  assert.equal(cancelled.error?.cause?.message, 'user left')
})

test('the tool receives the abort reason through its signal', async () => {
  const reasons: unknown[] = []
  const watching = tool((_args, { signal }) => {
    signal.addEventListener('abort', () => reasons.push(signal.reason))
    return never()
  })
  const gantry = createExecutor({ tools: [watching] })
  await gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.ok(ToolError.is(reasons[0]) && reasons[0].code === 'TIMEOUT')
})

test('a signal that aborts with a TimeoutError makes the call time out, not cancelled', async () => {
  const gantry = createExecutor({ tools: [tool(never)] })
  const result = await gantry.run('test:it', {}, { signal: AbortSignal.timeout(5) })
  assert.equal(result.status, 'timeout')
  assert.equal(result.error?.cause?.name, 'TimeoutError')
})

test('a call that is cancelled before it starts does not run its tool', async () => {
  let calls = 0
  const gantry = createExecutor({ tools: [tool(() => ++calls)] })
  const result = await gantry.run('test:it', {}, { signal: AbortSignal.abort() })
  assert.equal(result.status, 'cancelled')
  assert.equal(result.error?.effect, 'none')
  assert.equal(calls, 0)
})

test('the timeout of the call overrides that of the tool, and the executor caps both', async () => {
  const quick = createExecutor({ tools: [tool(never, { timeoutMs: 5 })] })
  assert.match((await quick.run('test:it')).error?.message ?? '', /within 5 ms/)
  assert.match((await quick.run('test:it', {}, { timeoutMs: 7 })).error?.message ?? '', /within 7 ms/)
  const capped = createExecutor({ tools: [tool(never)], limits: { maxTimeoutMs: 6 } })
  assert.match((await capped.run('test:it', {}, { timeoutMs: 60_000 })).error?.message ?? '', /within 6 ms/)
})

test('invalid call options are refused with INPUT_INVALID, and the tool does not start', async () => {
  const gantry = createExecutor({ tools: [tool(() => assert.fail('started'))] })
  for (const options of [
    { signal: {} },
    { identity: { principal: 'x' } },
    { retry: { attempts: 0 } },
    { callId: '' },
  ]) {
    const result = await gantry.run('test:it', {}, options as never)
    assert.equal(result.error?.code, 'INPUT_INVALID', JSON.stringify(options))
  }
  for (const timeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal((await gantry.run('test:it', {}, { timeoutMs })).error?.code, 'INPUT_INVALID')
  }
})

async function attemptsOf(effect: EffectClass, failure: () => unknown): Promise<number> {
  const gantry = createExecutor({
    tools: [
      tool(
        () => {
          throw failure()
        },
        { effect, retry: { attempts: 3, delayMs: 1 } },
      ),
    ],
    random: () => 0,
  })
  return (await gantry.run('test:it')).attempts
}

test('a failed call is retried only if its effect class allows it or it had no effect', async () => {
  const plain = () => new Error('flaky')
  for (const effect of ['read', 'keyed', 'repeatable'] as const)
    assert.equal(await attemptsOf(effect, plain), 3, effect)
  for (const effect of ['once', 'reconcilable'] as const) assert.equal(await attemptsOf(effect, plain), 1, effect)
  assert.equal(await attemptsOf('once', () => new ToolError('BACKEND_UNAVAILABLE', 'not reached')), 3)
  assert.equal(await attemptsOf('read', () => new ToolError('DENIED', 'no')), 1)
})

test('a successful attempt ends the call, and every attempt has the same idempotency key', async () => {
  const keys: string[] = []
  const flaky = tool(
    (_args, { idempotencyKey, attempt }) => {
      keys.push(`${idempotencyKey} ${attempt}`)
      if (attempt < 3) throw new Error('flaky')
      return attempt
    },
    { effect: 'keyed', retry: { attempts: 5, delayMs: 1 } },
  )
  const gantry = createExecutor({ tools: [flaky], random: () => 0 })
  const result = await gantry.run('test:it', {}, { idempotencyKey: 'k' })
  assert.equal(result.output, 3)
  assert.equal(result.attempts, 3)
  assert.deepEqual(keys, ['k 1', 'k 2', 'k 3'])
})

test('a tool never exceeds its concurrency limit, even when callers time out', async () => {
  const gates: (() => void)[] = []
  let running = 0
  let most = 0
  const narrow = tool(
    async () => {
      most = Math.max(most, ++running)
      await new Promise<void>((resolve) => gates.push(resolve))
      running -= 1
      return 1
    },
    { concurrency: 1 },
  )
  const gantry = createExecutor({ tools: [narrow] })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  const second = gantry.run('test:it', {}, { timeoutMs: 5 })
  assert.equal((await second).error?.effect, 'none')
  assert.equal(gates.length, 1)
  gates[0]?.()
  const third = gantry.run('test:it')
  while (gates.length < 2) await new Promise((resolve) => setImmediate(resolve))
  gates[1]?.()
  assert.equal((await third).status, 'ok')
  assert.equal(most, 1)
})

test('a timeout beyond the range of timers does not fire at once', async () => {
  const gantry = createExecutor({
    tools: [tool(() => new Promise((resolve) => setImmediate(() => resolve('in time'))))],
    limits: { maxTimeoutMs: 1e12 },
  })
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 1e12 })).output, 'in time')
})

test('a slot that is granted while its call is cancelled is released', async () => {
  for (let turns = 0; turns < 8; turns++) {
    const gantry = createExecutor({ tools: [tool(async () => 'done', { concurrency: 1 })] })
    const controller = new AbortController()
    const holder = gantry.run('test:it')
    const waiting = gantry.run('test:it', {}, { signal: controller.signal })
    for (let turn = 0; turn < turns; turn++) await Promise.resolve()
    controller.abort()
    await Promise.all([holder, waiting])
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 1_000 })).output, 'done', `after ${turns} turns`)
  }
})

test('each attempt receives the original arguments', async () => {
  const seen: unknown[] = []
  const greedy = tool(
    (args) => {
      seen.push(structuredClone(args))
      ;(args as { list: number[] }).list.push(1)
      throw new Error('again')
    },
    { effect: 'read', retry: { attempts: 3, delayMs: 0 } },
  )
  await createExecutor({ tools: [greedy] }).run('test:it', { list: [] })
  assert.deepEqual(seen, [{ list: [] }, { list: [] }, { list: [] }])
})
