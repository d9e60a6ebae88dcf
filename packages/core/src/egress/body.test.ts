import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fails } from './egress.fixture.ts'
import { readBody } from './response.ts'

const options = {
  origin: 'https://a.test',
  encoding: undefined,
  limit: 1_000,
  safe: true,
  signal: new AbortController().signal,
}

async function sizes(body: AsyncIterable<Uint8Array>): Promise<number[]> {
  const found: number[] = []
  for await (const piece of body) found.push(piece.byteLength)
  return found
}

test('a body of exactly the size limit is read, and one byte more fails with RESULT_TOO_LARGE', async () => {
  const pieces = await sizes(readBody(Readable.from([Buffer.alloc(600), Buffer.alloc(400)]), options))
  assert.deepEqual(pieces, [600, 400])
  const more = readBody(Readable.from([Buffer.alloc(600), Buffer.alloc(401)]), options)
  await assert.rejects(sizes(more), fails('RESULT_TOO_LARGE'))
})

test('readBody destroys its source when reading ends, stops early or fails', async () => {
  const bytes = gzipSync('x'.repeat(500))
  for (const read of [
    sizes,
    async (body: AsyncIterable<Uint8Array>) => {
      for await (const _ of body) break
    },
  ]) {
    const source = Readable.from([bytes, Buffer.alloc(10)])
    await read(readBody(source, { ...options, encoding: 'gzip' })).catch(() => {})
    assert.equal(source.destroyed, true)
  }
})

test('a broken body rejects with the abort reason when the signal is aborted', async () => {
  const signal = AbortSignal.abort(new Error('left'))
  const source = new Readable({ read() {} })
  source.destroy(new Error('broken'))
  await assert.rejects(sizes(readBody(source, { ...options, signal })), /left/)
})
