import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import fc from 'fast-check'
import type { EgressResponse } from '../../egress/egress.ts'
import { readStream, type Streaming } from './response.ts'
import { outputOf } from './server.fixture.ts'

/** An answer whose body comes in exactly these pieces, which a socket would not promise. */
function inPieces(pieces: readonly Uint8Array[], type = 'text/plain'): EgressResponse {
  const bytes = Buffer.concat(pieces)
  return {
    changed: false,
    status: 200,
    headers: new Headers({ 'content-type': type }),
    contentType: type,
    url: 'https://example.com/',
    body: (async function* () {
      yield* pieces
    })(),
    bytes: async () => bytes,
    text: async () => bytes.toString(),
    cancel: () => undefined,
  }
}

async function read(reading: Streaming, pieces: readonly Uint8Array[]): Promise<[output: Json, chunks: Json[]]> {
  const chunks: Json[] = []
  const output = await outputOf(
    readStream(reading, inPieces(pieces), (text) => text),
    chunks,
  )
  return [output, chunks]
}

test('a stream is read the same wherever it is split, also within characters and line ends', async () => {
  const events = Buffer.from('\ufeffdata: {"n":"é€😀"}\r\n\r\nid: ü\ndata: b\r\rdata: c\n\n')
  const lines = Buffer.from('{"n":"é€😀"}\r\n[1,2]\n"ü"')
  const [wholeEvents, wholeLines] = [await read('sse', [events]), await read('ndjson', [lines])]
  assert.deepEqual(wholeEvents, [
    { n: 'é€😀' },
    [
      { event: 'message', data: { n: 'é€😀' } },
      { event: 'message', data: 'b', id: 'ü' },
      { event: 'message', data: 'c', id: 'ü' },
    ],
  ])
  assert.deepEqual(wholeLines[0], [{ n: 'é€😀' }, [1, 2], 'ü'])
  const sizes = fc.array(fc.nat(12), { maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(sizes, async (cuts) => {
      assert.deepEqual(await read('sse', cut(events, cuts)), wholeEvents)
      assert.deepEqual(await read('ndjson', cut(lines, cuts)), wholeLines)
      const [, chunks] = await read('chunks', cut(lines, cuts))
      assert.equal(chunks.join(''), lines.toString())
    }),
    { numRuns: 300 },
  )
  const single = Array.from(events, (byte) => Uint8Array.of(byte))
  assert.deepEqual(await read('sse', single), wholeEvents)
})

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  let from = 0
  const pieces = sizes.map((size) => {
    const piece = bytes.subarray(from, from + size)
    from += size
    return piece
  })
  return [...pieces, bytes.subarray(from)]
}

test('a character truncated by the end of the stream is replaced, not dropped', async () => {
  const [, chunks] = await read('chunks', [Buffer.from('a€').subarray(0, 2)])
  assert.equal(chunks.join(''), 'a\ufffd')
})
