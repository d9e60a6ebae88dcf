import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Identity, JsonObject } from '@gantry/contract'
import { builtinTools } from '@gantry/tools'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const stranger: Identity = { principal: 'operator', tenant: 'umbrella', permissions: ['*'] }

test('documents that kb:add stores are found by later calls of the tenant, and not by other tenants', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools: builtinTools() })
  const ok = async (tool: string, args: JsonObject, as = operator): Promise<JsonObject> => {
    const { outcome } = await site.call(tool, args, as)
    assert.equal(outcome.status, 'ok', JSON.stringify(outcome.error))
    return outcome.output as JsonObject
  }
  const file = await ok('files:put', { name: 'formula.txt', content: 'The formula is two parts water.' })
  const added = await ok('kb:add', { artifact: file.id as string, id: 'f' })
  assert.deepEqual([added.lasting, (added.documents as JsonObject[])[0]?.state], [true, 'added'])
  await site.configure({ tools: builtinTools() })
  const found = (await ok('kb:search', { query: 'formula water' })).items as JsonObject[]
  assert.deepEqual(
    found.map(({ id, title }) => [id, title]),
    [['f', 'formula.txt']],
  )
  assert.deepEqual(await ok('kb:search', { query: 'formula water' }, stranger), { items: [] })
  assert.equal((await site.call('kb:get', { id: 'f' }, stranger)).outcome.error?.code, 'NOT_FOUND')
  assert.deepEqual(await ok('kb:remove', { id: 'f' }, stranger), { removed: 0 })
  assert.deepEqual(await ok('kb:remove', { id: 'f' }), { removed: 1 })
})

test('http:fetch stores a large binary response as an artifact of the call', async (t) => {
  const bytes = Buffer.alloc(100_000, 1)
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'image/png' }).end(bytes))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => void server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const egress = { allow: [{ origin, private: true }] }
  const site = await openServiceSite(t, pgliteDatabase, { tools: builtinTools(), egress })
  const { outcome } = await site.call('http:fetch', { url: `${origin}/picture.png` })
  const [artifact] = outcome.artifacts
  assert.deepEqual([artifact?.name, artifact?.mimeType, artifact?.bytes], ['picture.png', 'image/png', 100_000])
  assert.equal(((outcome.output as JsonObject).artifact as JsonObject).id, artifact?.id)
})
