import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EffectClass } from '@gantry/contract'
import type { Claim } from '../storage/calls/call-store.ts'
import { examine, type Verdict } from './examine.ts'

const effects: readonly EffectClass[] = ['read', 'keyed', 'reconcilable', 'once', 'repeatable']

function someClaim(effect: EffectClass): Claim {
  const call = {
    callId: 'c',
    kind: 'call' as const,
    identity: { principal: 'p', tenant: 't', permissions: [] },
    fingerprint: '',
    tool: 'a:b:1.0.0',
    effect,
    payload: '{}',
    payloadBytes: 2,
  }
  return {
    callId: 'c',
    fence: 1,
    deliveries: 1,
    lost: 0,
    begun: false,
    deaths: 0,
    faults: 0,
    rests: 0,
    cancelled: false,
    call,
  }
}

function verdictOn(given: Partial<Claim>, effect: EffectClass, fresh = false): Verdict {
  return examine({ ...someClaim(effect), ...given }, { maxDeaths: 3, fresh })
}

test('a first attempt says that it begins only where the effect may happen once only', () => {
  const begins = effects.filter((effect) => {
    const verdict = verdictOn({}, effect)
    return verdict.kind === 'run' && verdict.begin
  })
  assert.deepEqual(begins, ['reconcilable', 'once'])
})

test('a call that came with its claim has begun already, and is no suspect', () => {
  for (const effect of effects) {
    assert.deepEqual(verdictOn({}, effect, true), { kind: 'run', begin: false, alone: false })
  }
})

test('what an earlier attempt had begun runs again, is asked about or is unknown, by its effect class', () => {
  const ends = effects.map((effect) => {
    const verdict = verdictOn({ begun: true, lost: 1, deliveries: 2 }, effect)
    return verdict.kind === 'end' ? verdict.error.code : verdict.kind
  })
  assert.deepEqual(ends, ['run', 'run', 'reconcile', 'OUTCOME_UNKNOWN', 'run'])
})

test('a call whose holder was lost begins durably, and after the second time alone', () => {
  assert.deepEqual(verdictOn({ deliveries: 2 }, 'read'), { kind: 'run', begin: false, alone: false })
  assert.deepEqual(verdictOn({ deliveries: 2, lost: 1 }, 'read'), { kind: 'run', begin: true, alone: false })
  assert.deepEqual(verdictOn({ deliveries: 3, lost: 2 }, 'read'), { kind: 'run', begin: true, alone: true })
})

test('a call that took too many workers with it is given up, and is a dead letter', () => {
  assert.equal(verdictOn({ deliveries: 10, lost: 9, deaths: 1 }, 'read').kind, 'run', 'it merely stood near')
  const verdict = verdictOn({ deliveries: 4, lost: 3, deaths: 2 }, 'read')
  assert.ok(verdict.kind === 'end')
  assert.equal(verdict.error.code, 'DELIVERY_EXHAUSTED')
  assert.match(verdict.dead ?? '', /3 workers were lost/)
})

test('a call of which nobody knows what it did is unknown before it is anything else', () => {
  const verdict = verdictOn(
    { begun: true, deaths: 9, lost: 9, deliveries: 10, cancelled: true, deadlineMs: -1 },
    'once',
  )
  assert.ok(verdict.kind === 'end')
  assert.equal(verdict.error.code, 'OUTCOME_UNKNOWN')
})

test('cancelled and late calls end without running, and say whether an earlier attempt may have done something', () => {
  const fates = [
    verdictOn({ cancelled: true }, 'once'),
    verdictOn({ deadlineMs: 0 }, 'once'),
    verdictOn({ cancelled: true, begun: true, lost: 1, deliveries: 2 }, 'keyed'),
  ].map((verdict) => (verdict.kind === 'end' ? [verdict.error.code, verdict.error.effect] : verdict.kind))
  assert.deepEqual(fates, [
    ['CANCELLED', 'none'],
    ['TIMEOUT', 'none'],
    ['CANCELLED', 'possible'],
  ])
})

test('a chain that was handed back and is cancelled or late may have run in part', () => {
  for (const given of [{ cancelled: true }, { deadlineMs: -1 }]) {
    const ended = (deliveries: number, kind: 'call' | 'chain'): string | undefined => {
      const { call } = someClaim('repeatable')
      const verdict = verdictOn({ ...given, deliveries, call: { ...call, kind } }, 'repeatable')
      return verdict.kind === 'end' ? verdict.error.effect : undefined
    }
    assert.deepEqual([ended(1, 'chain'), ended(2, 'chain'), ended(2, 'call')], ['none', 'possible', 'none'])
  }
})
