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

test('a pattern may name a version, all versions, names that begin so, a namespace or everything', async () => {
  for (const pattern of ['a:tool', 'a:tool:1.0.0', 'a:to*', 'a:*', '*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'allow')
  for (const pattern of ['a:tool:2.0.0', 'a:too', 'b:*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'deny')
})

test('the reason of a rule is the reason of the decision', async () => {
  const decision = await rules([{ deny: 'a:*', reason: 'not on Fridays' }]).decide(requestFor('a'), waiting)
  assert.equal(decision.reason, 'not on Fridays')
})

test('a deny holds in whatever case its pattern or its tag is written', async () => {
  for (const deny of ['A:TOOL', 'A:*', 'A:T*', 'A:Tool:1.0.0']) {
    assert.equal(await effectOf([{ allow: '*' }, { deny }], 'a'), 'deny', deny)
  }
  const byTag: Rule[] = [{ allow: '*' }, { deny: '*', tags: ['Very Dangerous'] }]
  assert.equal(await effectOf(byTag, 'a', {}, { tags: ['very-dangerous'] }), 'deny')
})

test('principals are compared in their own case', async () => {
  assert.equal(await effectOf([{ allow: '*', to: 'Bob' }], 'a', { principal: 'bob' }), 'deny')
  assert.equal(await effectOf([{ allow: '*', to: 'svc-*' }], 'a', { principal: 'svc-' }), 'allow')
})

test('a condition that a rule inherits counts like its own', async () => {
  const rule = Object.assign(Object.create({ to: 'bob' }), { allow: '*' }) as Rule
  assert.equal(await effectOf([rule], 'a', { principal: 'bob' }), 'allow')
  assert.equal(await effectOf([rule], 'a', { principal: 'eve' }), 'deny')
})
