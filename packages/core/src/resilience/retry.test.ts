import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { createRetryBudget, isRepeatable, retry } from './retry.ts'

const never = new AbortController().signal
const soon = { random: () => 0, signal: never }
const unreachable = new ToolError('BACKEND_UNAVAILABLE', 'refused')

/** Work that fails so many times, and counts. */
function flaky(failures: number, error: unknown = unreachable) {
  const work = async (attempt: number): Promise<string> => {
    work.attempts += 1
    assert.equal(attempt, work.attempts)
    if (work.attempts <= failures) throw error
    return 'done'
  }
  work.attempts = 0
  return work
}

test('retry repeats a call until it succeeds or the attempts are exhausted', async () => {
  const twice = flaky(2)
  assert.equal(await retry(twice, { rule: { attempts: 3 }, ...soon }), 'done')
  assert.equal(twice.attempts, 3)
  const thrice = flaky(3)
  await assert.rejects(retry(thrice, { rule: { attempts: 3 }, ...soon }), unreachable)
  assert.equal(thrice.attempts, 3)
})

test('retry does not repeat a call that may have had an effect, unless its effect class allows it', async () => {
  const late = new ToolError('TIMEOUT', 'late')
  const once = flaky(1, late)
  await assert.rejects(retry(once, { rule: { attempts: 3 }, ...soon }), late)
  assert.equal(once.attempts, 1)
  const read = flaky(1, late)
  await retry(read, { rule: { attempts: 3 }, mayRepeat: (error) => isRepeatable(error, 'read'), ...soon })
  assert.equal(read.attempts, 2)
})

test('isRepeatable decides by the error and the effect class', () => {
  const failed = new ToolError('BACKEND_FAILED', 'x')
  const table: [unknown, boolean, boolean][] = [
    [unreachable, true, true],
    [new ToolError('RATE_LIMITED', 'x'), true, true],
    [new ToolError('INPUT_INVALID', 'x'), false, false],
    [new ToolError('CANCELLED', 'x'), false, false],
    [new ToolError('TIMEOUT', 'x'), false, true],
    [failed, false, true],
    [new Error('reset'), false, true],
    [new DOMException('gone', 'AbortError'), false, false],
  ]
  for (const [error, once, safe] of table) {
    const name = ToolError.is(error) ? error.code : String(error)
    assert.equal(isRepeatable(error), once, name)
    assert.equal(isRepeatable(error, 'reconcilable'), once, name)
    for (const effect of ['read', 'keyed', 'repeatable'] as const) assert.equal(isRepeatable(error, effect), safe, name)
  }
})

test('retry waits for the retryAfterMs of the error plus a jittered delay', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const asked = flaky(1, new ToolError('RATE_LIMITED', 'slow down', { details: { retryAfterMs: 700 } }))
  const done = retry(asked, { rule: { attempts: 2, delayMs: 100 }, random: () => 0.5, signal: never })
  const pass = async (ms: number) => {
    for (let turn = 0; turn < 10; turn++) await Promise.resolve()
    t.mock.timers.tick(ms)
    for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  }
  await pass(749)
  assert.equal(asked.attempts, 1)
  await pass(1)
  assert.equal(await done, 'done')
})

test('an error whose retryAfterMs exceeds maxDelayMs is thrown at once, and an invalid retryAfterMs is ignored', async () => {
  const rule = { attempts: 2, delayMs: 1, maxDelayMs: 500 }
  const long = flaky(1, new ToolError('CIRCUIT_OPEN', 'rests', { details: { retryAfterMs: 501 } }))
  await assert.rejects(retry(long, { rule, ...soon }), /rests/)
  assert.equal(long.attempts, 1)
  for (const retryAfterMs of [Number.NaN, -5, '900'] as number[]) {
    const work = flaky(1, new ToolError('RATE_LIMITED', 'x', { details: { retryAfterMs } }))
    assert.equal(await retry(work, { rule, ...soon }), 'done')
  }
})

test('an abort ends the wait between two attempts with the abort reason', async () => {
  const controller = new AbortController()
  const work = flaky(1)
  const done = retry(work, { rule: { attempts: 2, delayMs: 60_000 }, random: () => 1, signal: controller.signal })
  setImmediate(() => controller.abort(new Error('enough')))
  await assert.rejects(done, /enough/)
  assert.equal(work.attempts, 1)
})

test('the retry budget bounds the retries to a backend that always fails', async () => {
  const budget = createRetryBudget({ ratio: 0.2, minPerSecond: 0, now: () => 0 })
  let attempts = 0
  for (let call = 0; call < 100; call++) {
    const work = () => {
      attempts += 1
      throw unreachable
    }
    await assert.rejects(retry(work, { rule: { attempts: 5 }, budget, ...soon }), unreachable)
  }
  assert.equal(attempts, 120)
})

test('in any ten seconds the budget allows at most its ratio of the calls plus its reserve', () => {
  const options = fc.record({ ratio: fc.constantFrom(0, 0.1, 0.2, 1), minPerSecond: fc.constantFrom(0, 0.5, 2) })
  const step = fc.record({ pass: fc.nat(900), kind: fc.constantFrom('call' as const, 'repeat' as const) })
  fc.assert(
    fc.property(options, fc.array(step, { maxLength: 150, size: 'max' }), (given, steps) => {
      let time = 0
      const budget = createRetryBudget({ ...given, now: () => time })
      const seen: { at: number; kind: 'call' | 'repeat' }[] = []
      for (const { pass, kind } of steps) {
        time += pass
        const recent = seen.filter(({ at }) => Math.floor(at / 1_000) > Math.floor(time / 1_000) - 10)
        const calls = recent.filter((past) => past.kind === 'call').length
        const repeats = recent.length - calls
        const allowed = repeats + 1 <= given.ratio * calls + given.minPerSecond * 10
        if (kind === 'call') budget.call()
        else assert.equal(budget.repeat(), allowed)
        if (kind === 'call' || allowed) seen.push({ at: time, kind })
      }
    }),
  )
})

test('a started call with effect class once is not repeated, even when the backend reports effect none', () => {
  const harmless = new ToolError('BACKEND_FAILED', 'A GET failed.', { effect: 'none', retryable: true })
  assert.equal(isRepeatable(harmless, 'once'), false)
  assert.equal(isRepeatable(harmless, 'read'), true)
  assert.equal(isRepeatable(new ToolError('BACKEND_UNAVAILABLE', 'No backend answers.'), 'once'), true)
})
