import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Identity, JsonObject } from '@gantry/contract'
import { memoryArtifacts } from '@gantry/core/internal/artifacts/memory'
import { createExecutor } from '@gantry/tools'
import { fileTools } from './files.ts'

const gantry = createExecutor({ tools: fileTools() })
after(() => gantry.close())

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const ann: Identity = { ...ada, principal: 'ann' }
// Of the same name as her victim, so that only the tenant tells them apart.
const eve: Identity = { ...ada, tenant: 'umbrella' }
const nowhere = `art_${'0'.repeat(32)}`

async function ok(tool: string, args: JsonObject, identity = ada): Promise<JsonObject> {
  const { status, output, error, warnings } = await gantry.run(tool, args, { identity })
  assert.deepEqual([status, error, warnings], ['ok', undefined, []], tool)
  return output as JsonObject
}

async function code(tool: string, args: JsonObject, identity = ada): Promise<string | undefined> {
  return (await gantry.run(tool, args, { identity })).error?.code
}

test('a stored file is listed, described, read in ranges and removed', async () => {
  const { id, ...ref } = await ok('files:put', { name: 'dir/notes.txt', content: 'grün und blau' })
  assert.match(String(id), /^art_[0-9a-f]{32}$/)
  assert.deepEqual([ref.name, ref.mimeType, ref.bytes], ['notes.txt', 'text/plain', 14])
  const described = await ok('files:info', { id: id ?? '' })
  assert.equal(typeof described.createdAt, 'string')
  assert.deepEqual((await ok('files:list', { prefix: 'notes' })).items, [described])
  // The first part ends within the ü, which the second one begins with.
  const first = await ok('files:get', { id: id ?? '', bytes: 4, offset: 0 })
  assert.deepEqual([first.text, first.next, first.bytes], ['grü', 4, 14])
  const cut = await ok('files:get', { id: id ?? '', bytes: 4, offset: 1 })
  assert.deepEqual([cut.text, cut.next], ['rün', 5])
  const rest = await ok('files:get', { id: id ?? '', offset: 4 })
  assert.deepEqual([rest.text, rest.next], ['n und blau', undefined])
  assert.deepEqual(await ok('files:remove', { id: id ?? '' }), { removed: true })
  assert.deepEqual(await ok('files:remove', { id: id ?? '' }), { removed: false })
  assert.equal(await code('files:get', { id: id ?? '' }), 'NOT_FOUND')
})

test('bytes are written and read as base64, and invalid base64 is refused', async () => {
  const { id, mimeType } = await ok('files:put', { name: 'x.png', base64: '/wD/' })
  assert.equal(mimeType, 'application/octet-stream', 'a name alone makes no picture')
  assert.equal((await ok('files:get', { id: id ?? '' })).base64, '/wD/')
  assert.equal(await code('files:get', { id: id ?? '', as: 'text' }), 'INPUT_INVALID')
  const text = await ok('files:put', { name: 'a', content: 'hi' })
  assert.equal((await ok('files:get', { id: text.id ?? '', as: 'base64' })).base64, 'aGk=')
  for (const base64 of ['/w', '%%%', '/w==\n']) {
    assert.equal(await code('files:put', { name: 'x', base64 }), 'INPUT_INVALID', base64)
  }
  assert.equal(await code('files:put', { name: 'x', base64: '', content: '' }), 'INPUT_INVALID')
})

test('another tenant sees nothing of a file, and another principal of the tenant may read but not remove it', async () => {
  const { id } = await ok('files:put', { name: 'secret.txt', content: 'for acme' })
  assert.equal((await ok('files:get', { id: id ?? '' }, ann)).text, 'for acme')
  assert.equal(await code('files:remove', { id: id ?? '' }, ann), 'DENIED')
  for (const tool of ['files:get', 'files:info']) assert.equal(await code(tool, { id: id ?? '' }, eve), 'NOT_FOUND')
  assert.deepEqual(await ok('files:remove', { id: id ?? '' }, eve), { removed: false })
  assert.deepEqual((await ok('files:list', {}, eve)).items, [])
  assert.equal((await ok('files:get', { id: id ?? '' })).text, 'for acme')
})

test('a list continues after the previous page, and refuses a forged cursor', async () => {
  for (const n of [1, 2, 3]) await ok('files:put', { name: `page-${n}`, content: `${n}` })
  const names = (page: JsonObject): unknown => (page.items as { name: string }[]).map(({ name }) => name)
  const first = await ok('files:list', { prefix: 'page-', limit: 2 })
  assert.deepEqual(names(first), ['page-3', 'page-2'])
  const second = await ok('files:list', { prefix: 'page-', limit: 2, cursor: first.cursor ?? '' })
  assert.deepEqual([names(second), second.cursor], [['page-1'], undefined])
  assert.equal(await code('files:list', { cursor: 'made up' }), 'INPUT_INVALID')
})

test('the memory store limits files and bytes, and removal frees capacity', async () => {
  const artifacts = memoryArtifacts({ files: 2, bytes: 10 })
  const own = createExecutor({ tools: fileTools(), artifacts })
  const put = (content: string) => own.run('files:put', { name: 'a', content }, { identity: ada })
  const { output, artifacts: listed, effects } = await put('12345678')
  assert.equal(listed[0]?.id, (output as JsonObject).id, 'where files are kept, a file is on the result too')
  assert.equal(effects[0]?.kind, 'file')
  assert.equal((await put('123')).error?.code, 'LIMIT_EXCEEDED')
  await own.run('files:remove', { id: (output as JsonObject).id }, { identity: ada })
  assert.equal((await put('123')).status, 'ok')
  await own.close()
})

test('every example of the tools runs', async () => {
  for (const { tool } of fileTools()) {
    assert.ok((tool.examples ?? []).length > 0, tool.name)
    for (const { args, output } of tool.examples ?? []) {
      const result = await gantry.run(`files:${tool.name}`, args, { identity: ada })
      const missing = (args as JsonObject).id === nowhere && tool.name !== 'remove'
      assert.equal(result.error?.code, missing ? 'NOT_FOUND' : undefined, tool.name)
      if (output !== undefined) assert.deepEqual(result.output, output)
    }
  }
})
