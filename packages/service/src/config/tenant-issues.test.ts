import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { folderWith } from './config.fixture.ts'
import { loadConfig } from './load.ts'

const signal = new AbortController().signal

async function load(config: object) {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  return await loadConfig({ folder: folder.path, environment: {}, signal })
}

async function paths(config: object): Promise<readonly string[]> {
  const error = await load(config).then(
    () => assert.fail('it was accepted'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
  return (error.details?.issues ?? []).map(({ path }) => path)
}

test('the tools of tenants are read, and are no option of an executor', async () => {
  const { service, options } = await load({ tenants: { acme: { tools: ['gh:*'] }, '*': { tools: ['demo:*'] } } })
  assert.deepEqual(service.tenants, { acme: { tools: ['gh:*'] }, '*': { tools: ['demo:*'] } })
  assert.ok(!('tenants' in options))
})

test('tools that are not patterns, and keys that nobody reads, are refused at their path', async () => {
  assert.deepEqual(await paths({ tenants: { 'a/b': { tools: ['gh:*', 'gh'] } } }), ['/tenants/a~1b/tools/1'])
  assert.deepEqual(await paths({ tenants: { acme: { tool: ['gh:*'] } } }), ['/tenants/acme/tool'])
  assert.deepEqual(await paths({ tenants: { acme: { tools: [] } } }), ['/tenants/acme/tools'])
})

test('every part of a rule can be written in a file, and what is wrong in one is named', async () => {
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
  assert.deepEqual(await paths({ policy: { rules: wrong } }), [
    '/policy/rules/0/when/~1n/abov',
    '/policy/rules/1/floor',
  ])
})
