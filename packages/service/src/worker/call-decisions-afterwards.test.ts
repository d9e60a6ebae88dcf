import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asWaiting, createCallIds } from '../storage/calls/call-facts.ts'
import { afterwards } from './call-decisions.ts'
import type { Task } from './slot-scheduler.ts'
import { someClaim, someError, someResult } from './worker.fixture.ts'

function task(given: Partial<Task> = {}): Task {
  return {
    claim: someClaim(),
    fresh: false,
    controller: new AbortController(),
    takenAt: 0,
    stopped: undefined,
    ...given,
  }
}

test('an outcome is recorded, whatever its status', () => {
  for (const status of ['ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown'] as const) {
    const outcome = someResult({ status })
    assert.deepEqual(afterwards(task(), outcome), { kind: 'record', outcome })
  }
})

test('the outcome of a call whose lease was lost is discarded', () => {
  assert.deepEqual(afterwards(task({ stopped: 'lost' }), someResult()), { kind: 'drop' })
})

test('a call that its caller cancelled ends as cancelled', () => {
  const outcome = someResult({ status: 'cancelled', error: someError() })
  assert.deepEqual(afterwards(task({ stopped: 'cancelled' }), outcome), { kind: 'record', outcome })
})

test('a worker that stops releases calls that may be repeated or did not begin, and the others are unknown', () => {
  const stopped = (effect: 'read' | 'keyed' | 'once' | 'reconcilable', risk: 'none' | 'possible') =>
    afterwards(
      task({ stopped: 'stopping', claim: someClaim({}, { effect }) }),
      someResult({ status: 'cancelled', error: someError({ effect: risk }) }),
    )
  assert.equal(stopped('read', 'none').kind, 'release')
  assert.equal(stopped('keyed', 'possible').kind, 'release')
  assert.equal(stopped('once', 'none').kind, 'release')
  for (const effect of ['once', 'reconcilable'] as const) {
    const next = stopped(effect, 'possible')
    assert.ok(next.kind === 'record')
    assert.equal(next.outcome.status, 'unknown')
    assert.equal(next.outcome.error?.code, 'OUTCOME_UNKNOWN')
  }
})

test('a call that ended by itself while the worker was stopping keeps its outcome', () => {
  const outcome = someResult({ status: 'ok' })
  assert.deepEqual(afterwards(task({ stopped: 'stopping' }), outcome), { kind: 'record', outcome })
})

test('an open circuit is the outcome of a call that did not choose to wait', () => {
  const open = someError({ code: 'CIRCUIT_OPEN', effect: 'none', details: { retryAfterMs: 2_000 } })
  const outcome = someResult({ status: 'failed', error: open })
  assert.deepEqual(afterwards(task(), outcome), { kind: 'record', outcome })
  const failing = task({ claim: someClaim({}, { onCircuitOpen: 'fail' }) })
  assert.deepEqual(afterwards(failing, outcome), { kind: 'record', outcome })
  const chain = task({ claim: someClaim({}, { kind: 'chain' }) })
  assert.equal(afterwards(chain, outcome).kind, 'record')
  assert.equal(afterwards(chain, asWaiting(outcome)).kind, 'release', 'one of its calls waits')
})

test('a call that chose to wait for its circuit or rate is released, within its deadline and a number of waits', () => {
  const refused = (code: 'CIRCUIT_OPEN' | 'RATE_LIMITED', given: Parameters<typeof someClaim>[0] = {}) =>
    afterwards(
      task({ claim: someClaim(given, { onCircuitOpen: 'wait' }) }),
      someResult({ status: 'failed', error: someError({ code, effect: 'none', details: { retryAfterMs: 2_000 } }) }),
    )
  const rest = { kind: 'release', delayMs: 2_000, counts: 'rest' }
  assert.deepEqual(refused('CIRCUIT_OPEN'), { ...rest, reason: 'CIRCUIT_OPEN' })
  assert.deepEqual(refused('RATE_LIMITED'), { ...rest, reason: 'RATE_LIMITED' })
  assert.equal(refused('CIRCUIT_OPEN', { rests: 199 }).kind, 'record')
  assert.deepEqual(refused('CIRCUIT_OPEN', { rests: 49 }), { ...rest, delayMs: 5_000, reason: 'CIRCUIT_OPEN' })
  assert.deepEqual(
    refused('CIRCUIT_OPEN', { deliveries: 500, faults: 9 }),
    { ...rest, reason: 'CIRCUIT_OPEN' },
    'it slept, waited for approval, or failed to be handled before',
  )
  assert.equal(refused('CIRCUIT_OPEN', { deadlineMs: 1_500 }).kind, 'record')
})

test('a call waits for its circuit no longer than its timeout, counted from its admission', () => {
  const admittedAt = 1_800_000_000_000
  const callId = createCallIds(() => admittedAt)()
  const open = someError({ code: 'CIRCUIT_OPEN', effect: 'none', details: { retryAfterMs: 2_000 } })
  const after = (ageMs: number, timeoutMs: number, error = open) => {
    const claim = someClaim({ callId }, { onCircuitOpen: 'wait', timeoutMs })
    return afterwards(task({ claim }), someResult({ status: 'failed', error }), () => admittedAt + ageMs).kind
  }
  assert.equal(after(0, 500), 'record', 'the circuit rests for longer')
  assert.equal(after(0, 2_000), 'record')
  assert.equal(after(0, 5_000), 'release')
  assert.equal(after(2_500, 5_000), 'release')
  assert.equal(after(3_500, 5_000), 'record', 'it has waited before')
  assert.equal(after(-60_000, 5_000), 'release', 'a clock is behind')
  assert.equal(after(0, 500, { ...open, code: 'RATE_LIMITED' }), 'release', 'a rate is no circuit')
  const chain = task({ claim: someClaim({ callId }, { kind: 'chain', timeoutMs: 500 }) })
  const waiting = asWaiting(someResult({ status: 'failed', error: open }))
  assert.equal(afterwards(chain, waiting, () => admittedAt).kind, 'record', 'a chain has a timeout, too')
})

test('a call that requires approval waits for it; a tool that reports APPROVAL_REQUIRED itself has failed', () => {
  const details = { approvalId: 'ap_1', expiresMs: 86_400_000 }
  const pending = someError({ code: 'APPROVAL_REQUIRED', stage: 'authorize', effect: 'none', details })
  const next = { kind: 'release', delayMs: 86_400_000, reason: 'APPROVAL_REQUIRED', asked: true }
  const asked = someResult({ status: 'denied', error: pending })
  assert.deepEqual(afterwards(task(), asked), next)
  assert.deepEqual(afterwards(task({ claim: someClaim({ deliveries: 500, lost: 1 }) }), asked), next)
  assert.deepEqual(afterwards(task({ stopped: 'stopping' }), asked), next)
  assert.deepEqual(afterwards(task({ stopped: 'lost' }), asked), { kind: 'drop' })
  for (const given of [{ stage: 'execute' }, { details: {} }, { details: { expiresMs: 'x' } }, { code: 'DENIED' }]) {
    const outcome = someResult({ status: 'denied', error: { ...pending, ...given } as typeof pending })
    assert.deepEqual(afterwards(task(), outcome), { kind: 'record', outcome }, JSON.stringify(given))
  }
})
