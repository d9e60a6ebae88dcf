import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs one command line in a folder. */
async function gantry(folder: string, line: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const io = keptIo({ folder, environment })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

test('search names an unavailable backend, and describe fails with it as the cause', async () => {
  const dead = `{ kind: 'far', name: 'moon', call() {}, discover() { throw new Error('no \\u001b[31manswer') } }`
  using folder = folderWith({ 'gantry.config.mjs': `export default { backends: [${dead}] }` })
  const found = await gantry(folder.path, ['search', 'x'])
  assert.deepEqual([found.code, found.out], [0, 'No tools.\n'])
  assert.equal(found.err, 'warning: The tools of far:moon could not be discovered: no \\e[31manswer\n')
  const json = await gantry(folder.path, ['search', 'x', '--json'])
  assert.match(JSON.parse(json.out).warning.message, /could not be discovered/)
  const described = await gantry(folder.path, ['describe', 'moon:walk'])
  assert.deepEqual([described.code, described.out], [5, ''])
  assert.match(described.err, /^BACKEND_UNAVAILABLE: The tools of far:moon could not be discovered/)
})

const twoBackends = `import { defineTool } from '@gantry/core'
const backend = (name) => ({ kind: 'far', name, call: () => name })
const bindings = [{ kind: 'far', name: 'moon' }, { kind: 'far', name: 'mars' }]
const walk = { namespace: 'my', name: 'walk', description: 'Walks.', inputSchema: { type: 'object' }, backends: bindings }
export default { backends: [backend('moon'), backend('mars')], tools: [defineTool(walk)] }`

test('--backend chooses among the backends of a tool', async () => {
  using folder = folderWith({ 'gantry.config.mjs': twoBackends })
  for (const command of ['run', 'stream']) {
    assert.equal((await gantry(folder.path, [command, 'my:walk'])).out, 'moon\n')
    assert.equal((await gantry(folder.path, [command, 'my:walk', '--backend', 'far:mars'])).out, 'mars\n')
    const wrong = await gantry(folder.path, [command, 'my:walk', '--backend', 'far:venus'])
    assert.notEqual(wrong.code, 0)
    assert.match(wrong.err, /far:venus/)
  }
})

const contents = `import { defineTool } from '@gantry/core'
const data = Buffer.alloc(12_288).toString('base64')
const tool = (name, content) => defineTool({
  namespace: 'my', name, description: 'Shows.', inputSchema: { type: 'object' }, run: () => ({ content }),
})
export default { tools: [
  tool('image', [{ type: 'image', data, mimeType: 'image/png' }, { type: 'audio', data: 'AAAA', mimeType: 'a\\u001b[2J' }]),
  tool('mixed', [{ type: 'text', text: 'Look:' }, { type: 'resource', resource: { uri: 'file:///a', blob: data } },
    { type: 'resource_link', uri: 'https://a.example/b', name: 'b' }]),
] }`

test('content that is not text is printed as one line without --json', async () => {
  using folder = folderWith({ 'gantry.config.mjs': contents })
  const image = await gantry(folder.path, ['run', 'my:image'])
  assert.deepEqual([image.code, image.out], [0, '[image/png, 12 KB]\n[a\\e[2J, 3 B]\n'])
  const mixed = await gantry(folder.path, ['run', 'my:mixed'])
  assert.equal(mixed.out, 'Look:\n[file:///a, 12 KB]\n[https://a.example/b]\n')
  assert.equal(JSON.parse((await gantry(folder.path, ['run', 'my:image', '--json'])).out).content.length, 2)
})

test('credentials of the configuration replace those that an imported document requires', async (t) => {
  const seen: unknown[] = []
  const server = createServer(({ url, headers }, response) => {
    seen.push([url, headers.authorization, headers['x-key']])
    response.setHeader('content-type', 'application/json').end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const responses = { 200: { description: 'ok' } }
  const document = {
    openapi: '3.0.3',
    info: { title: 'Pets', version: '1.0.0' },
    servers: [{ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }],
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } } },
    paths: { '/pet': { get: { operationId: 'getPet', security: [{ key: [] }], responses } } },
  }
  const common = { kind: 'http', name: 'pets', private: true }
  const config = (backend: object) =>
    JSON.stringify({
      backends: [{ ...common, ...backend }],
      secrets: { PETS: { env: 'PETS' }, pets_key: { env: 'KEY' } },
    })
  const auth = { type: 'bearer', token: 'secret:PETS' }
  using folder = folderWith({
    'pets.json': JSON.stringify(document),
    'document.json': config({ openapi: 'pets.json', auth }),
    'file.json': config({ tools: 'pets.tools.json', auth }),
    'plain.json': config({ openapi: 'pets.json' }),
  })
  assert.equal((await gantry(folder.path, ['import', 'openapi', 'pets.json', '--name', 'pets'])).code, 0)
  const environment = { PETS: 'token-of-the-host', KEY: 'key-of-the-document' }
  for (const name of ['document.json', 'file.json', 'plain.json']) {
    const { code, err } = await gantry(folder.path, ['run', 'pets:getPet', '--config', name], environment)
    assert.equal(code, 0, err)
  }
  const host = ['/pet', 'Bearer token-of-the-host', undefined]
  assert.deepEqual(seen, [host, host, ['/pet', undefined, 'key-of-the-document']])
})
