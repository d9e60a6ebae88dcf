import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestFor, testPolicy } from '@gantry/conformance/internal/host-ports'
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

test('a rule applies only to the principals, roles, tenants, effects and tags it names', async () => {
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

test('a pattern matches a version, all versions, a name prefix, a namespace or everything', async () => {
  for (const pattern of ['a:tool', 'a:tool:1.0.0', 'a:to*', 'a:*', '*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'allow')
  for (const pattern of ['a:tool:2.0.0', 'a:too', 'b:*'])
    assert.equal(await effectOf([{ allow: pattern }], 'a'), 'deny')
})

test('the reason of a rule is the reason of the decision', async () => {
  const decision = await rules([{ deny: 'a:*', reason: 'not on Fridays' }]).decide(requestFor('a'), waiting)
  assert.equal(decision.reason, 'not on Fridays')
})

test('a deny matches patterns and tags regardless of case', async () => {
  for (const deny of ['A:TOOL', 'A:*', 'A:T*', 'A:Tool:1.0.0']) {
    assert.equal(await effectOf([{ allow: '*' }, { deny }], 'a'), 'deny', deny)
  }
  const byTag: Rule[] = [{ allow: '*' }, { deny: '*', tags: ['Very Dangerous'] }]
  assert.equal(await effectOf(byTag, 'a', {}, { tags: ['very-dangerous'] }), 'deny')
})

test('principals are compared case-sensitively', async () => {
  assert.equal(await effectOf([{ allow: '*', to: 'Bob' }], 'a', { principal: 'bob' }), 'deny')
  assert.equal(await effectOf([{ allow: '*', to: 'svc-*' }], 'a', { principal: 'svc-' }), 'allow')
})

test('an inherited member of a rule counts like an own member', async () => {
  const rule = Object.assign(Object.create({ to: 'bob' }), { allow: '*' }) as Rule
  assert.equal(await effectOf([rule], 'a', { principal: 'bob' }), 'allow')
  assert.equal(await effectOf([rule], 'a', { principal: 'eve' }), 'deny')
})

test('a deny wins over an unavailable, and an unavailable over an ask', async () => {
  const all: Rule[] = [{ allow: '*' }, { ask: 'a:*' }, { unavailable: 'a:*', reason: 'at night' }]
  for (const order of [all, [...all].reverse()]) assert.equal(await effectOf(order, 'a'), 'unavailable')
  for (const order of [
    [...all, { deny: 'a:tool' } as const],
    [{ deny: 'a:tool' } as const, ...all],
  ]) {
    assert.equal(await effectOf(order, 'a'), 'deny')
  }
})

test('a decision names its rule, the first of several, by name or index', async () => {
  const ruleOf = async (...list: Rule[]) => (await rules(list).decide(requestFor('a'), waiting)).rule
  assert.equal(await ruleOf({ allow: '*' }, { deny: 'a:*' }, { deny: '*', to: 'alice' }), '/rules/1')
  assert.equal(await ruleOf({ allow: '*', tenants: ['acme'] }, { allow: '*', name: 'rest' }), '/rules/0')
  assert.equal(await ruleOf({ allow: 'b:*' }, { ask: '*', name: 'careful' }, { allow: '*' }), 'careful')
  assert.equal(await ruleOf({ allow: 'b:*' }), undefined)
})

test('the decision has the strongest isolation floor of all matching rules', async () => {
  const floorOf = async (...list: Rule[]) => {
    const decision = await rules(list).decide(requestFor('a'), waiting)
    return 'floor' in decision ? decision.floor : undefined
  }
  assert.equal(await floorOf({ allow: '*' }, { allow: 'a:*', floor: 'namespaces' }), 'namespaces')
  assert.equal(await floorOf({ allow: '*', floor: 'wasm' }, { ask: 'a:*', floor: 'kernel' }), 'kernel')
  assert.equal(await floorOf({ ask: '*' }, { allow: 'a:*', floor: 'container' }), 'container')
  assert.equal(await floorOf({ allow: '*' }, { allow: 'b:*', floor: 'container' }), undefined)
  assert.equal(await floorOf({ allow: '*', floor: 'container' }, { deny: 'a:*' }), undefined)
})

test('a tool is visible when some arguments may be allowed, and hidden when none are', () => {
  const { args: _args, ...request } = requestFor('a')
  const shows = (...list: Rule[]) => rules(list).visible?.(request)
  const when = { '/x': { is: 1 } }
  assert.equal(shows({ allow: '*' }, { deny: 'a:*', when }), true)
  assert.equal(shows({ allow: 'a:*', when }), true)
  assert.equal(shows({ allow: '*' }, { unavailable: 'a:*' }), true)
  assert.equal(shows({ allow: 'a:*', when }, { deny: 'a:*' }), false)
  assert.equal(shows({ allow: 'b:*', when }), false)
})
