import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createEventReader, createLineReader, type ServerEvent } from './response.ts'

function read(...pieces: readonly string[]): ServerEvent[] {
  const reader = createEventReader()
  return pieces.flatMap((piece) => reader.push(piece))
}

test('server-sent events are parsed as the standard specifies', () => {
  const event = 'message'
  assert.deepEqual(read('data: a\ndata: b\n\n'), [{ event, data: 'a\nb', id: '' }])
  assert.deepEqual(read(': comment\n\ndata\n\ndata:\ndata\n\ndata: lost'), [
    { event, data: '', id: '' },
    { event, data: '\n', id: '' },
  ])
  assert.deepEqual(read('event: add\ndata:  x\n\nevent: none\n\ndata: y\n\n'), [
    { event: 'add', data: ' x', id: '' },
    { event, data: 'y', id: '' },
  ])
  assert.deepEqual(
    read('id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n').map(({ id }) => id),
    ['1', '1', '1', ''],
  )
  assert.deepEqual(read('retry: 10\nunknown: x\ndata:y:z\n\n'), [{ event, data: 'y:z', id: '' }])
})

test('lines may end with CR, LF or both, and events do not depend on where the pieces are split', () => {
  const line = fc.constantFrom('data: x', 'data:y', 'data', ':c', 'event: e', 'id: 7', 'retry: 1', '', 'data: ü😀')
  const end = fc.constantFrom('\r', '\n', '\r\n')
  const stream = fc.array(fc.tuple(line, end)).map((lines) => lines.flat())
  fc.assert(
    fc.property(stream, fc.array(fc.nat(40)), (parts, cuts) => {
      const text = parts.join('')
      const normal = read(parts.map((part) => (/^[\r\n]+$/.test(part) ? '\n' : part)).join(''))
      assert.deepEqual(read(...split(text, cuts)), ambiguous(parts) ? read(text) : normal)
    }),
    { numRuns: 500 },
  )
})

/** A CR at the end of a line followed by an LF at the end of an empty line is read as one CRLF. */
function ambiguous(parts: readonly string[]): boolean {
  return parts.some((part, index) => part === '\r' && parts[index + 1] === '' && parts[index + 2] === '\n')
}

function split(text: string, cuts: readonly number[]): string[] {
  const pieces: string[] = []
  let rest = text
  for (const cut of cuts) {
    pieces.push(rest.slice(0, cut))
    rest = rest.slice(cut)
  }
  return [...pieces, rest]
}

test('a line or an event over the size limit fails with RESULT_TOO_LARGE', () => {
  const reader = createEventReader(10)
  assert.throws(() => reader.push('data: 12345678'), { code: 'RESULT_TOO_LARGE' })
  const many = createEventReader(10)
  assert.throws(() => many.push('data:1234\ndata:1234\ndata:1234\n'), { code: 'RESULT_TOO_LARGE' })
  const fine = createEventReader(10)
  assert.equal(fine.push('data:1234\n\ndata:1234\n\ndata:1234\n\n').length, 3)
})

test('a line that arrives in a million pieces is read in linear time', () => {
  const lines = createLineReader()
  for (let count = 0; count < 1_000_000; count++) assert.equal(lines.push('x').length, 0)
  assert.equal(lines.push('\n')[0]?.length, 1_000_000)
})
