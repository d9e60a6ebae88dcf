import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readEvents, type ServerEvent } from './events.ts'

/** Reads a text that comes in the given pieces. */
async function read(pieces: readonly Uint8Array[], idleMs = 10_000): Promise<ServerEvent[]> {
  const events: ServerEvent[] = []
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  for await (const event of readEvents(body, { idleMs })) events.push(event)
  return events
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

test('readEvents parses events as the server-sent events standard defines', async () => {
  const text = [
    ': a comment\n\n',
    'id: 1\nevent: chunk\ndata: {"a":1}\n\n',
    'data:no space\ndata:  two spaces\n\n',
    'event: without data\n\n',
    'id: 2\r\ndata: with CR LF\r\n\r\n',
    'data: with CR\r\r',
    'retry: 5\nunknown: x\nnameless\ndata\n\n',
    'data: not whole',
  ].join('')
  assert.deepEqual(await read([bytes(text)]), [
    { id: '1', event: 'chunk', data: '{"a":1}' },
    { event: 'message', data: 'no space\n two spaces' },
    { id: '2', event: 'message', data: 'with CR LF' },
    { event: 'message', data: 'with CR' },
    { event: 'message', data: '' },
  ])
})

test('readEvents returns the same events however the bytes are split', async () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replace(/[\r\n]/g, ''))
  const event = fc.record(
    { id: fc.nat().map(String), event: fc.constantFrom('chunk', 'log'), data: line },
    { noNullPrototype: true },
  )
  const end = fc.constantFrom('\n', '\r\n', '\r')
  await fc.assert(
    fc.asyncProperty(fc.array(event), end, fc.array(fc.nat(500)), async (events, eol, cuts) => {
      const whole = bytes(
        events
          .map(({ id, event, data }) => [`id: ${id}`, `event: ${event}`, `data: ${data}`, '', ''].join(eol))
          .join(''),
      )
      const places = [0, ...cuts, whole.length].map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b)
      const pieces = places.map((place, index) => whole.subarray(place, places[index + 1] ?? whole.length))
      // A CR at the very end may be half of a line break, so the last event of a text in CR waits for more.
      const expected = eol === '\r' ? events.slice(0, -1) : events
      assert.deepEqual((await read(pieces)).slice(0, expected.length), expected)
    }),
  )
})

test('readEvents fails and closes a stream that is idle for too long', async () => {
  let closed = false
  const silent = new ReadableStream<Uint8Array>({
    cancel() {
      closed = true
    },
  })
  await assert.rejects(readEvents(silent, { idleMs: 10 }).next(), /sent no data/)
  assert.ok(closed)
})

test('readEvents limits the size of an event', async () => {
  const piece = bytes('data: '.padEnd(1_048_576, 'x'))
  let sent = 0
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 1
      controller.enqueue(piece)
    },
  })
  await assert.rejects(readEvents(endless, { idleMs: 10_000 }).next(), /too long/)
  assert.ok(sent < 64)
})
