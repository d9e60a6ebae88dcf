import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolError } from '@gantry/contract'
import { checkConfig } from './check-config.ts'
import { folderWith } from './config.fixture.ts'
import { loadConfig } from './load.ts'

const { signal } = new AbortController()

function asked(folder: string) {
  return { folder, environment: {}, signal }
}

async function wrongPaths(config: object): Promise<readonly string[]> {
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  const error = await checkConfig(asked(folder.path)).then(
    () => assert.fail('it was accepted'),
    (thrown: ToolError) => thrown,
  )
  assert.equal(error.code, 'CONFIG_INVALID')
  return (error.details?.issues ?? []).map(({ path }) => path)
}

test('the limits of http:fetch and of a tenant’s knowledge are read from the file', async () => {
  const httpFetch = {
    allow: ['https://api.example.com'],
    methods: ['GET'],
    secrets: { api: ['https://api.example.com'] },
  }
  using folder = folderWith({ 'gantry.config.json': JSON.stringify({ httpFetch, knowledge: { documents: 5 } }) })
  const { builtinOptions, knowledge, options } = await loadConfig(asked(folder.path))
  assert.deepEqual([builtinOptions, knowledge], [{ httpFetch }, { documents: 5 }])
  assert.ok(!('knowledge' in options))
})

test('an invalid httpFetch or knowledge setting is refused with its path', async () => {
  assert.deepEqual(await wrongPaths({ httpFetch: { methods: ['CONNECT'], alow: [] } }), [
    '/httpFetch/alow',
    '/httpFetch/methods/0',
  ])
  assert.deepEqual(await wrongPaths({ httpFetch: { allow: ['api.example.com/v1'] } }), ['/httpFetch/allow/0/origin'])
  assert.deepEqual(await wrongPaths({ knowledge: { documents: 0, byte: 1 } }), [
    '/knowledge/documents',
    '/knowledge/byte',
  ])
  assert.deepEqual(await wrongPaths({ knowledge: { embedder: {} } }), ['/knowledge/embedder'])
})

test('a configuration module can supply an embedder', async () => {
  const text = `export default { knowledge: { bytes: 10, embedder: { id: 'e1', embed: async () => [] } } }`
  using folder = folderWith({ 'gantry.config.mjs': text })
  const { knowledge } = await loadConfig(asked(folder.path))
  assert.deepEqual([knowledge?.bytes, knowledge?.embedder?.id], [10, 'e1'])
})

test('configured tools can be bound to the backends web and knowledge', async () => {
  const tool = (name: string, binding: object) => ({
    namespace: 'my',
    name,
    description: 'A thing.',
    inputSchema: { type: 'object' },
    backends: [binding],
  })
  const good = [tool('a', { kind: 'web', methods: ['GET'] }), tool('b', { kind: 'knowledge', action: 'search' })]
  using folder = folderWith({ 'gantry.config.json': JSON.stringify({ tools: good }) })
  await checkConfig(asked(folder.path))
  const wrong = [tool('a', { kind: 'web', method: 'GET' }), tool('b', { kind: 'knowledge', action: 'drop' })]
  assert.deepEqual(await wrongPaths({ tools: wrong }), ['/tools/0/backends/0/method', '/tools/1/backends/0/action'])
})
