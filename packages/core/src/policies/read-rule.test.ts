import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { type Rule, type RulesOptions, rules } from './rules.ts'

function fault(list: unknown, options?: unknown): ToolError {
  try {
    rules(list as readonly Rule[], options as RulesOptions)
  } catch (error) {
    if (ToolError.is(error)) return error
    throw error
  }
  return assert.fail('the rules were accepted')
}

for (const [rule, path, hint] of [
  [{ allow: 'gh' }, '/rules/0/allow', /namespace:prefix\*/],
  [{ deny: '*:delete' }, '/rules/0/deny', /namespace:prefix\*/],
  [{ ask: 'gh:x:^1' }, '/rules/0/ask', /namespace:prefix\*/],
  [{ deny: '' }, '/rules/0/deny', /namespace:prefix\*/],
  [{ deny: [] }, '/rules/0/deny', /namespace:prefix\*/],
  [{ deny: ['gh:*', ''] }, '/rules/0/deny/1', /namespace:prefix\*/],
  [{ deny: 5 }, '/rules/0/deny', /namespace:prefix\*/],
  [{ deny: null }, '/rules/0/deny', /namespace:prefix\*/],
  [{ deny: ['gh:*', null] }, '/rules/0/deny/1', /namespace:prefix\*/],
  [{ allow: '*', to: [] }, '/rules/0/to', /name principals/],
  [{ allow: '*', to: '' }, '/rules/0/to', /must not be empty/],
  [{ allow: '*', to: [''] }, '/rules/0/to/0', /must not be empty/],
  [{ allow: '*', to: [5] }, '/rules/0/to/0', /name principals/],
  [{ allow: '*', to: 5 }, '/rules/0/to', /name principals/],
  [{ allow: '*', to: undefined }, '/rules/0/to', /name principals/],
  [{ allow: '*', roles: [] }, '/rules/0/roles', /leave it out/],
  [{ allow: '*', roles: 'admin' }, '/rules/0/roles', /must be a list/],
  [{ allow: '*', tenants: [''] }, '/rules/0/tenants/0', /must not be empty/],
  [{ allow: '*', tags: [5] }, '/rules/0/tags/0', /must be a string/],
  [{ allow: '*', tags: undefined }, '/rules/0/tags', /must be a list/],
  [{ allow: '*', effects: [] }, '/rules/0/effects', /read, keyed, reconcilable, once, repeatable/],
  [{ allow: '*', effects: ['reed'] }, '/rules/0/effects/0', /did you mean "read"/],
  [{ allow: '*', effects: 'read' }, '/rules/0/effects', /must be a list/],
  [{ allow: '*', role: ['admin'] }, '/rules/0/role', /did you mean "roles"/],
  [{ allow: '*', tenant: ['a'] }, '/rules/0/tenant', /did you mean "tenants"/],
  [{ denny: '*', allow: '*' }, '/rules/0/denny', /did you mean "deny"/],
  [{ allow: '*', reason: 5 }, '/rules/0/reason', /must be a string/],
  [{ deny: '*', reason: '' }, '/rules/0/reason', /must not be empty/],
  [{ allow: '*', when: {} }, '/rules/0/when', /such as/],
  [{ allow: '*', when: undefined }, '/rules/0/when', /such as/],
  [{ deny: '*', when: { '/a': { abov: 1 } } }, '/rules/0/when/~1a/abov', /did you mean "above"/],
  [{ allow: '*', floor: 'strong' }, '/rules/0/floor', /none, wasm, namespaces, container, kernel, microvm/],
  [{ allow: '*', floor: undefined }, '/rules/0/floor', /none, wasm/],
  [{ deny: '*', floor: 'wasm' }, '/rules/0/floor', /applies to allow and ask only/],
  [{ allow: '*', approvers: ['a'] }, '/rules/0/approvers', /applies to ask only/],
  [{ ask: '*', approvers: [] }, '/rules/0/approvers', /name at least one/],
  [{ ask: '*', name: '' }, '/rules/0/name', /must not be empty/],
  [{ unavailable: 'x' }, '/rules/0/unavailable', /namespace:prefix/],
  [{ unavailable: '*', ask: '*' }, '/rules/0', /exactly one of/],
  [{ to: 'bob' }, '/rules/0', /exactly one of/],
  [{ allow: '*', deny: 'a:*' }, '/rules/0', /exactly one of/],
  ['allow', '/rules/0', /must be a rule/],
  [null, '/rules/0', /must be a rule/],
  [['*'], '/rules/0', /must be a rule/],
] as const) {
  test(`the rule ${JSON.stringify(rule)} is refused at ${path}`, () => {
    const error = fault([rule])
    assert.equal(error.code, 'CONFIG_INVALID')
    assert.deepEqual(
      error.details?.issues?.map((issue) => issue.path),
      [path],
    )
    assert.match(error.details?.issues?.[0]?.message ?? '', hint)
  })
}

test('one error names every failing path of all rules', () => {
  const error = fault([{ allow: '*' }, { deny: ['x', 'a:*', 'y'] }, { ask: 'a:b', too: 'bob' }])
  const paths = error.details?.issues?.map(({ path }) => path)
  assert.deepEqual(paths, ['/rules/1/deny/0', '/rules/1/deny/2', '/rules/2/too'])
  for (const path of paths ?? []) assert.ok(error.message.includes(path))
})

test('a default that is neither allow nor deny, or an unknown option, is refused', () => {
  for (const otherwise of ['ask', 'Deny', '', null, true]) {
    assert.equal(fault([], { default: otherwise }).details?.issues?.[0]?.path, '/default')
  }
  assert.match(fault([], { defualt: 'allow' }).message, /did you mean "default"/)
  rules([], { default: undefined })
})

test('a value that is not a list of rules is refused', () => {
  for (const list of [undefined, null, {}, 'allow']) {
    assert.equal(fault(list).details?.issues?.[0]?.path, '/rules')
  }
})

test('more rules than the limit are refused', () => {
  const error = fault(Array.from({ length: 10_001 }, () => ({ allow: '*' })))
  assert.match(error.message, /more than 10000 rules/)
})
