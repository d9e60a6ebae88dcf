import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import fc from 'fast-check'
import { type AttachedStream, attachedStream } from './docker.ts'

/** A connection to an engine: what it sends is pushed by the test, what it receives is kept. */
function connectionOf(): { readonly connection: Duplex; readonly received: Buffer[] } {
  const received: Buffer[] = []
  const connection = new Duplex({
    read: () => undefined,
    write: (chunk, _, done) => {
      received.push(chunk)
      done()
    },
  })
  return { connection, received }
}

function piece(stream: number, content: string): Buffer {
  const head = Buffer.alloc(8)
  head[0] = stream
  head.writeUInt32BE(Buffer.byteLength(content), 4)
  return Buffer.concat([head, Buffer.from(content)])
}

function opened(): { readonly attached: AttachedStream; readonly connection: Duplex; readonly received: Buffer[] } {
  const { connection, received } = connectionOf()
  return { attached: attachedStream(connection), connection, received }
}

test('pieces of both streams are taken apart, wherever the connection cuts them', async () => {
  const sent = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.string({ maxLength: 40 })), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(sent, fc.array(fc.nat(600), { maxLength: 8 }), async (pieces, cuts) => {
      const { attached, connection } = opened()
      const whole = Buffer.concat(pieces.map(([stream, content]) => piece(stream, content)))
      const at = [
        0,
        ...cuts.map((cut) => Math.min(cut, whole.length)).toSorted((one, other) => one - other),
        whole.length,
      ]
      for (const [index, end] of at.slice(1).entries()) {
        if (end > (at[index] ?? 0)) connection.push(whole.subarray(at[index], end))
      }
      connection.push(null)
      const of = (wanted: number): string =>
        pieces.map(([stream, content]) => (stream === wanted ? content : '')).join('')
      assert.equal(await text(attached.channel), of(1))
      assert.equal(attached.stderr(), Buffer.from(of(2)).toString('latin1').trim())
    }),
  )
})

test('the start of a piece of stdout is passed on before its end has arrived', async () => {
  const { attached, connection } = opened()
  connection.push(piece(1, 'early and late').subarray(0, 8 + 5))
  const [chunk] = (await once(attached.channel, 'data')) as [Buffer]
  assert.equal(chunk.toString(), 'early')
})

test('a piece of an unknown stream destroys the channel and the connection', async () => {
  const { attached, connection } = opened()
  attached.channel.resume()
  connection.push(piece(3, 'x'))
  const [error] = (await once(attached.channel, 'error')) as [Error]
  assert.match(error.message, /unknown stream/)
  assert.equal(connection.destroyed, true)
})

test('of stderr the last 4 KiB are kept', async () => {
  const { attached, connection } = opened()
  connection.push(piece(2, `${'a'.repeat(10_000)}the reason`))
  connection.push(null)
  await text(attached.channel)
  assert.equal(attached.stderr().length, 4_096)
  assert.match(attached.stderr(), /the reason$/)
})

test('what is written to the channel is the stdin of the container, and its end ends the connection', async () => {
  const { attached, connection, received } = opened()
  attached.channel.end('frames')
  await once(connection, 'finish')
  assert.equal(Buffer.concat(received).toString(), 'frames')
})

test('a lost connection closes the channel', async () => {
  const { attached, connection } = opened()
  connection.destroy(new Error('reset'))
  await once(attached.channel, 'close')
  assert.equal(attached.channel.destroyed, true)
})
