import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestFor, testPolicy } from '@gantry/conformance/internal/host-ports'
import { allOf, named } from './all-of.ts'
import type { Decision, Policy } from './policy.ts'
import { rules } from './rules.ts'

const waiting = { signal: new AbortController().signal }
const open = rules([], { default: 'allow' })

testPolicy('allOf', () => {
  const both = allOf(
    rules([{ allow: 'open:*' }, { allow: 'careful:*' }, { allow: 'shut:*' }]),
    rules([{ allow: 'open:*' }, { deny: 'shut:tool' }, { ask: 'careful:*' }]),
  )
  assert.ok(both)
  return both
})

function saying(decision: unknown, late = false): Policy {
  return { decide: () => (late ? Promise.resolve(decision) : decision) as Decision }
}

async function decide(...policies: readonly Policy[]): Promise<Decision> {
  return (allOf(...policies) ?? open).decide(requestFor('a'), waiting)
}

const allow = { effect: 'allow' } as const
const ask = { effect: 'ask', reason: 'why not' } as const
const away = { effect: 'unavailable', reason: 'later' } as const
const deny = { effect: 'deny', reason: 'no' } as const

test('allOf returns the strictest decision, in any order, synchronous or not', async () => {
  const ranks = [allow, ask, away, deny]
  for (const [low, one] of ranks.entries()) {
    for (const [high, other] of ranks.entries()) {
      const expected = ranks[Math.max(low, high)]
      for (const late of [false, true]) {
        assert.deepEqual(await decide(saying(one, late), saying(other)), expected)
        assert.deepEqual(await decide(open, saying(one), saying(other, late)), expected)
      }
    }
  }
})

test('a policy that fails or returns no decision makes the call unavailable, and does not override a denial', async () => {
  const failing: Policy[] = [
    saying(undefined),
    saying({ effect: 'maybe' }, true),
    { decide: () => assert.fail('broken') },
    { decide: () => Promise.reject(new Error('broken')) },
  ]
  for (const policy of failing) {
    for (const order of [
      [policy, open],
      [open, policy],
    ]) {
      assert.equal((await decide(...order)).effect, 'unavailable')
    }
    assert.equal((await decide(policy, saying(deny))).effect, 'deny')
    assert.equal((await decide(saying(deny, true), policy)).effect, 'deny')
  }
})

test('allOf takes the stronger isolation floor and the intersection of the approvers', async () => {
  const floored = await decide(saying({ ...allow, floor: 'kernel' }), saying({ ...ask, floor: 'namespaces' }))
  assert.deepEqual(floored, { ...ask, floor: 'kernel' })
  const roles = (...approvers: string[]) => saying({ ...ask, approvers })
  assert.deepEqual(await decide(roles('ops', 'lead'), roles('lead', 'boss')), { ...ask, approvers: ['lead'] })
  assert.deepEqual(await decide(roles('ops'), roles('boss')), ask)
  assert.deepEqual(await decide(roles('ops'), saying(ask)), ask)
})

test('a tool exists and is visible only when it is for every policy', () => {
  const visible = (shown: boolean): Policy => ({ ...open, visible: () => shown, exists: () => shown })
  const { args: _args, ...request } = requestFor('a')
  for (const [one, other] of [
    [true, false],
    [false, true],
    [true, true],
  ] as const) {
    const both = allOf(open, visible(one), visible(other))
    assert.equal(both?.visible?.(request), one && other)
    assert.equal(both?.exists?.(request.identity, request.tool), one && other)
  }
  assert.equal(allOf(open, open)?.exists, undefined)
})

test('allOf of no policy is undefined, and of one policy is that policy', () => {
  assert.equal(allOf(), undefined)
  assert.equal(allOf(undefined, open, undefined), open)
})

test('named prefixes the rule of a decision with the name of its policy', async () => {
  const policy = named('stored', rules([{ deny: 'a:*' }]))
  assert.equal((await policy.decide(requestFor('a'), waiting)).rule, 'stored /rules/0')
  const later = named('stored', saying({ ...deny, rule: 'freeze' }, true))
  assert.equal((await later.decide(requestFor('a'), waiting)).rule, 'stored freeze')
})
