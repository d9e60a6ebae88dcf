import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestFor, testPolicy } from '../conformance/policy.ts'
import { type Rule, rules } from './rules.ts'

testPolicy('rules', () => rules([{ allow: 'open:*' }, { deny: 'shut:tool' }, { ask: 'careful:*' }]))

const waiting = { signal: new AbortController().signal }

async function effectOf(list: readonly Rule[], ...of: Parameters<typeof requestFor>): Promise<string> {
  return (await rules(list).decide(requestFor(...of), waiting)).effect
}

test('a deny wins over an ask, and an ask over an allow, in any order', async () => {
  const all: Rule[] = [{ allow: '*' }, { ask: 'a:*' }, { deny: 'a:tool' }]
  for (const order of [all, [...all].reverse()]) assert.equal(await effectOf(order, 'a'), 'deny')
  assert.equal(await effectOf([{ ask: 'a:*' }, { allow: '*' }], 'a'), 'ask')
})

test('a rule holds only for the principals, roles, tenants, effects and tags it names', async () => {
  const scopes: [Partial<Rule>, Parameters<typeof requestFor>][] = [
    [{ to: 'bob' }, ['a', { principal: 'bob' }]],
    [{ to: ['svc-*'] }, ['a', { principal: 'svc-7' }]],
    [{ roles: ['admin'] }, ['a', { roles: ['admin'] }]],
    [{ tenants: ['other'] }, ['a', { tenant: 'other' }]],
    [{ effects: ['read'] }, ['a', {}, { effect: 'read' }]],
    [{ tags: ['safe'] }, ['a', {}, { tags: ['safe'] }]],
  ]
  for (const [scope, match] of scopes) {
    const rule = { allow: '*', ...scope } as Rule
    assert.equal(await effectOf([rule], ...match), 'allow', JSON.stringify(scope))
    assert.equal(await effectOf([rule], 'a'), 'deny', JSON.stringify(scope))
  }
})

test('a pattern may name a version, all versions, a namespace or everything', async () => {
  for (const pattern of ['a:tool', 'a:tool:1.0.0', 'a:*', '*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'allow')
  for (const pattern of ['a:tool:2.0.0', 'a:too', 'b:*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'deny')
})

test('the reason of a rule is the reason of the decision', async () => {
  const decision = await rules([{ deny: 'a:*', reason: 'not on Fridays' }]).decide(requestFor('a'), waiting)
  assert.equal(decision.reason, 'not on Fridays')
})

test('a rule with a misspelt condition or without exactly one verb is refused, because it would mean too much', () => {
  const wrong: unknown[] = [{ allow: '*', role: ['admin'] }, { to: 'bob' }, { allow: '*', deny: 'a:*' }]
  for (const rule of wrong) assert.throws(() => rules([rule as Rule]), { code: 'CONFIG_INVALID' }, JSON.stringify(rule))
})
