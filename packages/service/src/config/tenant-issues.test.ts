import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load, refusedPaths } from './config.fixture.ts'

test('the tools of tenants are service settings, not executor options', async () => {
  const { service, options } = await load({ tenants: { acme: { tools: ['gh:*'] }, '*': { tools: ['demo:*'] } } })
  assert.deepEqual(service.tenants, { acme: { tools: ['gh:*'] }, '*': { tools: ['demo:*'] } })
  assert.ok(!('tenants' in options))
})

test('an invalid tool pattern or an unknown key of a tenant is refused with its path', async () => {
  assert.deepEqual(await refusedPaths({ tenants: { 'a/b': { tools: ['gh:*', 'gh'] } } }), ['/tenants/a~1b/tools/1'])
  assert.deepEqual(await refusedPaths({ tenants: { acme: { tool: ['gh:*'] } } }), ['/tenants/acme/tool'])
  assert.deepEqual(await refusedPaths({ tenants: { acme: { tools: [] } } }), ['/tenants/acme/tools'])
})

test('a file can hold every part of a policy rule, and an invalid part is refused with its path', async () => {
  const rules = [
    { deny: 'a:*', when: { '/n': { above: 5 } }, name: 'dear' },
    { allow: '*', floor: 'namespaces' },
    { ask: 'b:*', approvers: ['lead'] },
    { unavailable: 'c:*', reason: 'at night' },
  ]
  assert.equal((await load({ policy: { rules } })).file !== undefined, true)
  const wrong = [
    { deny: '*', when: { '/n': { abov: 5 } } },
    { allow: '*', floor: 'steel' },
  ]
  assert.deepEqual(await refusedPaths({ policy: { rules: wrong } }), [
    '/policy/rules/0/when/~1n/abov',
    '/policy/rules/1/floor',
  ])
})
