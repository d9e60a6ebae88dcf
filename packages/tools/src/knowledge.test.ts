import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Identity, JsonObject, Result } from '@gantry/contract'
import { memoryArtifacts } from '@gantry/core/internal/artifacts/memory'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { builtinTools } from './builtin.ts'

function opened(t: TestContext, options: ExecutorOptions = {}) {
  const gantry = createExecutor({ ...options, tools: builtinTools() })
  t.after(() => gantry.close())
  const ok = async (name: string, args: JsonObject, identity?: Identity): Promise<JsonObject> => {
    const result = await gantry.run(`kb:${name}`, args, identity === undefined ? {} : { identity })
    assert.deepEqual([result.status, result.error, result.warnings], ['ok', undefined, []])
    return result.output as JsonObject
  }
  return { gantry, ok }
}

const idsOf = ({ items }: JsonObject): unknown[] => (items as JsonObject[]).map(({ id }) => id)

test('the examples of the tools add, find, read and remove a document', async (t) => {
  const { gantry, ok } = opened(t)
  for (const name of ['add', 'search', 'get', 'remove']) {
    const [example] = gantry.find(`kb:${name}`)?.tool.examples ?? []
    assert.ok(example !== undefined, name)
    const output = await ok(name, example.args)
    if (name === 'search') assert.deepEqual(idsOf(output), ['notes/reset'])
    if (example.output !== undefined) assert.deepEqual(output, example.output)
  }
  assert.deepEqual(idsOf(await ok('search', { query: 'password' })), [])
})

test('several documents are added together, and one invalid document refuses all of them', async (t) => {
  const { gantry, ok } = opened(t)
  const added = await ok('add', { documents: [{ text: 'one apple' }, { text: 'two apples', id: 'b' }] })
  assert.equal((added.documents as unknown[]).length, 2)
  assert.equal(added.lasting, false)
  const wrong = await gantry.run('kb:add', { documents: [{ text: 'three apples' }, { text: ' ' }] })
  assert.equal(wrong.error?.code, 'INPUT_INVALID')
  assert.equal(idsOf(await ok('search', { query: 'apples' })).length, 2)
})

test('a duplicate id in one call is refused with the path of the second, and nothing is stored', async (t) => {
  const { gantry, ok } = opened(t)
  const documents = [
    { id: 'a', text: 'one apple' },
    { id: 'a', text: 'two apples' },
  ]
  const { error } = await gantry.run('kb:add', { documents })
  assert.deepEqual(
    [error?.code, error?.details?.issues],
    ['INPUT_INVALID', [{ path: '/documents/1/id', message: 'is the id of /documents/0 too; give each its own' }]],
  )
  assert.deepEqual(idsOf(await ok('search', { query: 'apple' })), [])
})

test('an artifact is added with its name and source, and one that is not UTF-8 text is refused', async (t) => {
  const artifacts = memoryArtifacts()
  const { gantry, ok } = opened(t, { artifacts })
  const { signal } = new AbortController()
  const identity: Identity = { principal: 'a', tenant: 'acme', permissions: ['*'] }
  const put = (content: Uint8Array, name: string) =>
    artifacts.put({ name, mimeType: 'text/plain', content }, { identity, callId: 'c', fence: undefined }, signal)
  const text = await put(Buffer.from('Grüße aus dem Garten.'), 'garden.txt')
  await ok('add', { artifact: text.id, id: 'g' }, identity)
  const found = await ok('get', { id: 'g' }, identity)
  assert.deepEqual(
    [found.title, found.source, found.text],
    ['garden.txt', `artifact:${text.id}`, 'Grüße aus dem Garten.'],
  )
  const bytes = await put(Uint8Array.of(0xff, 0xfe, 0x00), 'x.bin')
  const refused = await gantry.run('kb:add', { artifact: bytes.id }, { identity })
  assert.deepEqual(
    [refused.error?.code, refused.error?.details?.issues],
    ['INPUT_INVALID', [{ path: '/artifact', message: 'is not UTF-8 text' }]],
  )
  const stranger = { ...identity, tenant: 'umbrella' }
  assert.equal((await gantry.run('kb:add', { artifact: text.id }, { identity: stranger })).error?.code, 'NOT_FOUND')
})

test('a caller sees the documents of its own tenant and of no other', async (t) => {
  const { gantry, ok } = opened(t)
  const acme: Identity = { principal: 'a', tenant: 'acme', permissions: ['*'] }
  const umbrella: Identity = { principal: 'a', tenant: 'umbrella', permissions: ['*'] }
  await ok('add', { id: 'x', text: 'The formula is secret.', source: 's' }, acme)
  assert.deepEqual(idsOf(await ok('search', { query: 'formula' }, acme)), ['x'])
  assert.deepEqual(idsOf(await ok('search', { query: 'formula' }, umbrella)), [])
  assert.equal((await gantry.run('kb:get', { id: 'x' }, { identity: umbrella })).error?.code, 'NOT_FOUND')
  assert.deepEqual(await ok('remove', { source: 's' }, umbrella), { removed: 0 })
  assert.deepEqual(idsOf(await ok('search', { query: 'formula' }, acme)), ['x'])
})

test('invalid arguments are refused with their paths', async (t) => {
  const { gantry } = opened(t)
  const wrong: readonly (readonly [string, JsonObject, string])[] = [
    ['add', {}, ''],
    ['add', { text: '' }, '/text'],
    ['add', { text: 'x', artifact: 'art_1' }, ''],
    ['add', { text: 'x', documents: [{ text: 'y' }] }, ''],
    ['add', { text: 'x', id: '../\0' }, '/id'],
    ['add', { text: 'x', id: 'x'.repeat(201) }, '/id'],
    ['add', { text: 'x', tags: ['a\nb'] }, '/tags/0'],
    ['add', { text: 'x', tags: Array(33).fill('a') }, '/tags'],
    ['add', { text: 'x', source: 'a\0b' }, '/source'],
    ['add', { documents: [{ text: 'x', tenant: 'other' }] }, '/documents/0/tenant'],
    ['search', { query: '' }, '/query'],
    ['search', { query: 'x', limit: 51 }, '/limit'],
    ['search', { query: 'x', tenant: 'other' }, '/tenant'],
    ['get', { id: 'a b' }, '/id'],
    ['remove', {}, ''],
    ['remove', { id: 'x', source: 'y' }, ''],
  ]
  for (const [name, args, path] of wrong) {
    const { error } = await gantry.run(`kb:${name}`, args)
    const shown = JSON.stringify(args).slice(0, 80)
    assert.equal(error?.code, 'INPUT_INVALID', shown)
    assert.ok(
      ((error?.details?.issues ?? []) as { path: string }[]).some((issue) => issue.path === path),
      shown,
    )
  }
})

test('an add to the memory store, or an empty search result, warns that the store ends with the process', async (t) => {
  const { gantry } = opened(t)
  const warningsOf = async (name: string, args: JsonObject): Promise<string[]> => {
    const logs: string[] = []
    let result: Result | undefined
    for await (const event of gantry.stream(`kb:${name}`, args)) {
      if (event.kind === 'log') logs.push(event.message)
      if (event.kind === 'done') result = event.result
    }
    assert.equal(result?.status, 'ok')
    return logs
  }
  assert.match((await warningsOf('search', { query: 'x' })).join(), /memory of this process/)
  assert.match((await warningsOf('add', { text: 'x' })).join(), /memory of this process/)
  assert.deepEqual(await warningsOf('search', { query: 'x' }), [])
})
