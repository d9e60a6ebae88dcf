import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { createRateLimit, createRateLimits, type RateLimitOptions } from './rate-limit.ts'

const never = new AbortController().signal

/** `retryAfterMs` of a refused call; 0 when it passed. */
function refusedFor(take: () => void): number {
  try {
    take()
    return 0
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'RATE_LIMITED', String(error))
    return Number(error.details?.retryAfterMs)
  }
}

test('in any time span the limiter admits at most the burst plus the refill', () => {
  const rates = fc.record({
    perSecond: fc.constantFrom(0.5, 1, 3, 7, 10, 1_000),
    burst: fc.integer({ min: 1, max: 8 }),
  })
  const steps = fc.array(fc.record({ pass: fc.nat(700), count: fc.integer({ min: 1, max: 3 }) }), {
    maxLength: 80,
    size: 'max',
  })
  fc.assert(
    fc.property(rates, steps, ({ perSecond, burst }, events) => {
      let time = 1_000
      const limit = createRateLimit({ perSecond, burst, now: () => time })
      const passed: { at: number; count: number }[] = []
      for (const { pass, count } of events) {
        time += pass
        if (count > burst) continue
        const waitMs = refusedFor(() => limit.take(count))
        if (waitMs === 0) passed.push({ at: time, count })
        else {
          time += waitMs
          assert.equal(
            refusedFor(() => limit.take(count)),
            0,
            'it came back after retryAfterMs',
          )
          passed.push({ at: time, count })
        }
      }
      passed.forEach(({ at: from }, first) => {
        let sum = 0
        for (const { at, count } of passed.slice(first)) {
          sum += count
          assert.ok(sum <= burst + (perSecond * (at - from)) / 1_000 + 1e-6, `${sum} within ${at - from} ms`)
        }
      })
    }),
  )
})

test('a full bucket admits exactly its burst, and a refused call spends no token', () => {
  let time = 0
  const limit = createRateLimit({ perSecond: 10, burst: 3, now: () => time })
  const waits = Array.from({ length: 6 }, () => refusedFor(() => limit.take()))
  assert.deepEqual(waits, [0, 0, 0, 100, 100, 100])
  time = 99
  assert.equal(
    refusedFor(() => limit.take()),
    1,
  )
  time = 100
  limit.take()
})

test('a request for more tokens than the burst fails with LIMIT_EXCEEDED', () => {
  const limit = createRateLimit({ perSecond: 10, burst: 3 })
  for (const count of [4, 0, -1, Number.NaN]) assert.throws(() => limit.take(count), { code: 'LIMIT_EXCEEDED' })
})

test('waiters are admitted in order at the refill rate, ahead of new calls, and an aborted waiter spends no token', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let time = 0
  const order: string[] = []
  const limit = createRateLimit({ perSecond: 10, burst: 1, now: () => time })
  const controller = new AbortController()
  const wait = (name: string, signal = never) => limit.wait(signal).then(() => order.push(`${name} ${time}`))
  const passMs = async (ms: number) => {
    time += ms
    t.mock.timers.tick(ms)
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  }
  const waits = [wait('a'), wait('b')]
  const gone = assert.rejects(wait('gone', controller.signal), /enough/)
  waits.push(wait('c'))
  assert.equal(
    refusedFor(() => limit.take()),
    400,
  )
  await passMs(0)
  controller.abort(new Error('enough'))
  await gone
  for (let tick = 0; tick < 5; tick++) await passMs(50)
  await Promise.all(waits)
  assert.deepEqual(order, ['a 0', 'b 100', 'c 200'])
  await assert.rejects(limit.wait(controller.signal), /enough/)
})

test('a late timer lets no new call overtake a waiter that is due', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let time = 0
  const limit = createRateLimit({ perSecond: 10, burst: 1, now: () => time })
  limit.take()
  const waiting = limit.wait(never)
  time = 100
  assert.equal(
    refusedFor(() => limit.take()),
    100,
  )
  await waiting
})

test('when the first waiter aborts, the next one is admitted at once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const limit = createRateLimit({ perSecond: 1, burst: 2, now: () => 0 })
  limit.take(1)
  const controller = new AbortController()
  const head = assert.rejects(limit.wait(controller.signal, 2), /gone/)
  const next = limit.wait(never, 1)
  controller.abort(new Error('gone'))
  await Promise.all([head, next])
})

test('each key has its own limit, whatever its name', () => {
  const limits = createRateLimits({ perSecond: 1, burst: 1, now: () => 0 })
  for (const key of ['a', 'b', '__proto__', '']) {
    limits.take(key)
    assert.equal(
      refusedFor(() => limits.take(key)),
      1_000,
    )
  }
})

test('keys beyond the maximum share one limit until idle keys are dropped', () => {
  let time = 0
  const limits = createRateLimits({ perSecond: 1, burst: 2, most: 3, now: () => time })
  for (const key of ['a', 'b', 'c']) limits.take(key)
  const passed = Array.from({ length: 100 }, (_, key) => refusedFor(() => limits.take(`flood ${key}`))).filter(
    (waitMs) => waitMs === 0,
  )
  assert.equal(passed.length, 2)
  limits.take('a')
  assert.ok(refusedFor(() => limits.take('a')) > 0)
  time = 2_000
  for (const key of ['x', 'y', 'z']) limits.take(key, 2)
})

test('invalid options are refused', () => {
  for (const options of [{}, { perSecond: 1 }, { perSecond: 0, burst: 1 }, { perSecond: 1, burst: 1.5 }]) {
    assert.throws(() => createRateLimit(options as RateLimitOptions), { code: 'CONFIG_INVALID' })
    assert.throws(() => createRateLimits(options as RateLimitOptions), { code: 'CONFIG_INVALID' })
  }
})
