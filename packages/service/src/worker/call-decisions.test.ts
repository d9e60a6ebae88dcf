import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EffectClass } from '@gantry/contract'
import type { Claim } from '../storage/calls/call-store.ts'
import { heldClaim } from '../storage/calls/claim.fixture.ts'
import { examine, type Verdict } from './call-decisions.ts'

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
  return heldClaim(call)
}

function verdictOn(given: Partial<Claim>, effect: EffectClass, fresh = false): Verdict {
  return examine({ ...someClaim(effect), ...given }, { maxDeaths: 3, fresh })
}

test('a first attempt records its beginning only for effects that may happen once only', () => {
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

test('a call that an earlier attempt began runs again, is reconciled or is unknown, by its effect class', () => {
  const ends = effects.map((effect) => {
    const verdict = verdictOn({ begun: true, lost: 1, deliveries: 2 }, effect)
    return verdict.kind === 'end' ? verdict.error.code : verdict.kind
  })
  assert.deepEqual(ends, ['run', 'run', 'reconcile', 'OUTCOME_UNKNOWN', 'run'])
})

test('a call whose worker was lost records its beginning, and after the second loss runs alone', () => {
  assert.deepEqual(verdictOn({ deliveries: 2 }, 'read'), { kind: 'run', begin: false, alone: false })
  assert.deepEqual(verdictOn({ deliveries: 2, lost: 1 }, 'read'), { kind: 'run', begin: true, alone: false })
  assert.deepEqual(verdictOn({ deliveries: 3, lost: 2 }, 'read'), { kind: 'run', begin: true, alone: true })
})

test('a call that crashed too many workers becomes a dead letter', () => {
  assert.equal(
    verdictOn({ deliveries: 10, lost: 9, deaths: 1 }, 'read').kind,
    'run',
    'it ran beside the call that crashed them',
  )
  const verdict = verdictOn({ deliveries: 4, lost: 3, deaths: 2 }, 'read')
  assert.ok(verdict.kind === 'end')
  assert.equal(verdict.error.code, 'DELIVERY_EXHAUSTED')
  assert.match(verdict.dead ?? '', /3 workers were lost/)
})

test('an unknown outcome takes precedence over every other verdict', () => {
  const verdict = verdictOn(
    { begun: true, deaths: 9, lost: 9, deliveries: 10, cancelled: true, deadlineMs: -1 },
    'once',
  )
  assert.ok(verdict.kind === 'end')
  assert.equal(verdict.error.code, 'OUTCOME_UNKNOWN')
})

test('cancelled and late calls end without running, with the effect that an earlier attempt may have had', () => {
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

test('a chain that was released and is then cancelled or late may have run in part', () => {
  for (const given of [{ cancelled: true }, { deadlineMs: -1 }]) {
    const ended = (deliveries: number, kind: 'call' | 'chain'): string | undefined => {
      const { call } = someClaim('repeatable')
      const verdict = verdictOn({ ...given, deliveries, call: { ...call, kind } }, 'repeatable')
      return verdict.kind === 'end' ? verdict.error.effect : undefined
    }
    assert.deepEqual([ended(1, 'chain'), ended(2, 'chain'), ended(2, 'call')], ['none', 'possible', 'none'])
  }
})
