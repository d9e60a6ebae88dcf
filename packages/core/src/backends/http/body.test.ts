import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HttpBody, JsonObject } from '@gantry/contract'
import fc from 'fast-check'
import { encodeMultipart, writeBody } from './body.ts'

const write = (body: HttpBody, rest: JsonObject) => writeBody(body, rest, rest)

test('a form repeats the name for each list item and writes objects as JSON', () => {
  const sent = write({ type: 'form' }, { a: 'x y', list: [1, 'b'], object: { k: 1 }, none: null })
  assert.equal(sent?.data, 'a=x%20y&list=1&list=b&object=%7B%22k%22%3A1%7D')
  assert.equal(sent?.mediaType, 'application/x-www-form-urlencoded')
  assert.throws(() => write({ type: 'form', arg: 'a' }, { a: [] }), { code: 'INPUT_INVALID' })
})

test('a text or binary body is one argument, and invalid base64 is refused', () => {
  assert.equal(write({ type: 'text', arg: 'a' }, { a: 'é' })?.data, 'é')
  assert.deepEqual(write({ type: 'binary', arg: 'a' }, { a: 'AP8=' })?.data, Buffer.from([0, 255]))
  assert.deepEqual(write({ type: 'binary', arg: 'a' }, { a: 'AP8' })?.data, Buffer.from([0, 255]))
  for (const a of ['A', 'AP8 =', 'A===', 'AP-_', 'é', 7]) {
    assert.throws(() => write({ type: 'binary', arg: 'a' }, { a }), { code: 'INPUT_INVALID' }, String(a))
  }
  assert.equal(write({ type: 'binary', arg: 'missing' }, { a: 1 }), undefined)
})

test('form members are written in the style of the binding', () => {
  const encoding = { metadata: { style: 'deepObject' }, ids: { style: 'pipeDelimited' } } as const
  const sent = write({ type: 'form', encoding }, { metadata: { a: { b: 'c&d' } }, ids: [1, 2], other: { k: 1 } })
  assert.equal(sent?.data, 'metadata%5Ba%5D%5Bb%5D=c%26d&ids=1%7C2&other=%7B%22k%22%3A1%7D')
})

test('the FormData parser of Node reads any multipart body back unchanged', async () => {
  const name = fc.string({ unit: 'binary', minLength: 1 }).map((text) => text.replaceAll('\0', ''))
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(name, fc.string({ unit: 'binary' }), { minKeys: 1, noNullPrototype: true }),
      async (args) => {
        const entries = Object.entries(args)
        const sent = write({ type: 'multipart' }, Object.fromEntries(entries))
        const form = await new Response(sent?.data, {
          headers: { 'content-type': sent?.mediaType ?? '' },
        }).formData()
        // The parser decodes %22, %0D and %0A, so it cannot distinguish them from a name that held them literally.
        const plain = (text: string) => text.replaceAll('%22', '"').replaceAll('%0D', '\r').replaceAll('%0A', '\n')
        const back = [...form.entries()].map(([key, value]) => [plain(key), value])
        assert.deepEqual(
          back,
          entries.map(([key, value]) => [plain(key), value]),
        )
      },
    ),
  )
})

test('a multipart part is a file when the binding lists it, JSON for an object, and repeated for a list', async () => {
  const body: HttpBody = { type: 'multipart', files: ['photo'] }
  const sent = write(body, { photo: 'AP8=', meta: { a: 1 }, tag: ['x', 'y'], none: null })
  const form = await new Response(sent?.data, {
    headers: { 'content-type': sent?.mediaType ?? '' },
  }).formData()
  const photo = form.get('photo') as File
  assert.deepEqual([photo.name, new Uint8Array(await photo.arrayBuffer())], ['photo', new Uint8Array([0, 255])])
  assert.deepEqual([form.get('meta'), form.getAll('tag'), form.has('none')], ['{"a":1}', ['x', 'y'], false])
  assert.match(Buffer.from(sent?.data ?? '').toString(), /name="meta"\r\nContent-Type: application\/json\r\n/)
  assert.throws(() => write(body, { photo: 'no base64!' }), { code: 'INPUT_INVALID' })
})

test('a multipart boundary that occurs in a part is not used', () => {
  const drawn = ['taken', 'taken', 'free']
  const sent = encodeMultipart(
    [{ name: 'a', data: Buffer.from('--gantry-taken--') }],
    'multipart/form-data',
    () => drawn.shift() ?? '',
  )
  assert.equal(sent.mediaType, 'multipart/form-data; boundary=gantry-free')
})

test('quotes and line breaks in the name of a part are escaped', () => {
  const sent = write({ type: 'multipart' }, { 'a"; filename="b\r\nX-Evil: 1\r\n\r\n': 'x' })
  const text = Buffer.from(sent?.data ?? '').toString()
  assert.match(text, /name="a%22; filename=%22b%0D%0AX-Evil: 1%0D%0A%0D%0A"\r\n\r\nx\r\n/)
})
