import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { HttpBinding } from '@gantry/contract'
import { failure, openWorld } from './server.fixture.ts'

type Body = string | Uint8Array | readonly Uint8Array[]

/** A server that answers what the test asks it to. */
async function answering(t: TestContext) {
  let [type, pieces]: [string | undefined, readonly (string | Uint8Array)[]] = [undefined, []]
  const world = await openWorld(async (_request, response) => {
    response.writeHead(200, type === undefined ? {} : { 'content-type': type })
    for (const piece of pieces) {
      await new Promise<void>((resolve) => void response.write(piece, () => resolve()))
    }
    response.end()
  })
  t.after(world.close)
  const ask = async (asType: string | undefined, body: Body, response: HttpBinding['response'] = 'auto') => {
    ;[type, pieces] = [asType, typeof body === 'string' || body instanceof Uint8Array ? [body] : body]
    world.chunks.length = 0
    return world.call({ path: '/file', response })
  }
  return { world, ask }
}

const latin = Buffer.from([0xe9])
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

test('a response is decoded by its media type', async (t) => {
  const { ask, world } = await answering(t)
  assert.deepEqual(await ask('application/json', '{"a":1}'), { a: 1 })
  assert.deepEqual(await ask('application/vnd.api+json; charset=utf-8', '\ufeff[1]'), [1])
  assert.equal(await ask('text/plain', 'hi é'), 'hi é')
  assert.equal(await ask('text/plain; charset="iso-8859-1"', latin), 'é')
  assert.equal(await ask('text/plain; charset=no-such', 'é'), 'é')
  assert.equal(await ask('application/xml', '<a/>'), '<a/>')
  assert.equal(await ask(undefined, 'plain'), 'plain')
  assert.deepEqual(await ask('image/png', latin), {
    content: [{ type: 'image', data: base64(latin), mimeType: 'image/png' }],
  })
  assert.deepEqual(await ask('audio/ogg', latin), {
    content: [{ type: 'audio', data: base64(latin), mimeType: 'audio/ogg' }],
  })
  const uri = `${world.origin}/file`
  const resource = (mimeType: string) => ({
    content: [{ type: 'resource', resource: { uri, mimeType, blob: base64(latin) } }],
  })
  assert.deepEqual(await ask('application/pdf', latin), resource('application/pdf'))
  assert.deepEqual(await ask(undefined, latin), resource('application/octet-stream'))
  for (const type of ['application/json', 'text/plain', 'image/png', undefined]) assert.equal(await ask(type, ''), null)
})

test('a binding may override how the response is decoded', async (t) => {
  const { ask, world } = await answering(t)
  assert.deepEqual(await ask('text/html', '{"a":1}', 'json'), { a: 1 })
  assert.equal(await ask('application/json', '{"a":1}', 'text'), '{"a":1}')
  assert.equal(await ask('text/html', latin, 'base64'), base64(latin))
  const euro = Buffer.from('€')
  assert.equal(await ask('text/plain', [euro.subarray(0, 1), euro.subarray(1), Buffer.from('x')], 'chunks'), undefined)
  assert.equal(world.chunks.join(''), '€x')
})

test('an invalid JSON response fails, and the error holds a short, escaped excerpt', async (t) => {
  const { ask } = await answering(t)
  const error = await failure(ask('application/json', `<h1>\x1b[31m\u202e${'no'.repeat(5_000)}`))
  assert.equal(error.code, 'BACKEND_FAILED')
  assert.ok(error.message.length < 300)
  assert.match(error.message, /<h1>\\u\{1b\}\[31m\\u\{202e\}nono/)
  assert.equal((await failure(ask('application/json', '['.repeat(10_000)))).code, 'BACKEND_FAILED')
  const deep = `${'['.repeat(200_000)}1234567890123456${']'.repeat(200_000)}`
  assert.equal((await failure(ask('application/json', deep))).code, 'RESULT_TOO_LARGE')
})

test('a 64-bit integer keeps its digits, and a long text is read in full', async (t) => {
  const { ask } = await answering(t)
  assert.deepEqual(await ask('application/json', '{"id":1234567890123456789}'), { id: '1234567890123456789' })
  assert.equal(((await ask('application/json', `"${'x'.repeat(9_000_000)}"`)) as string).length, 9_000_000)
})

test('server-sent events become chunks, and the last JSON data is the output', async (t) => {
  const { ask, world } = await answering(t)
  const text = '\ufeff: hi\r\nid: 1\r\ndata: {"n":1}\r\n\r\nevent: done\rdata: {"n":2}\r\rdata: [DONE]\n\n'
  assert.deepEqual(await ask('text/event-stream', text), { n: 2 })
  assert.deepEqual(world.chunks, [
    { event: 'message', data: { n: 1 }, id: '1' },
    { event: 'done', data: { n: 2 }, id: '1' },
    { event: 'message', data: '[DONE]', id: '1' },
  ])
  assert.deepEqual(await ask('text/event-stream', 'data: a\n\ndata: b\n\n'), { events: 2 })
  assert.equal(await ask('text/event-stream', 'data: null\n\n'), null)
})

test('NDJSON lines become chunks, and their list is the output', async (t) => {
  const { ask, world } = await answering(t)
  const list = [{ a: 1 }, 'text', null, 'more']
  assert.deepEqual(await ask('application/x-ndjson', '{"a":1}\n\n"text"\r\nnull\n"more"'), list)
  assert.deepEqual(world.chunks, list)
  assert.deepEqual(await ask('application/jsonl', ''), [])
  assert.match((await failure(ask('application/jsonl', '{"a":1}\n{"a":\n'))).message, /not valid JSON: \{"a":/)
})
