import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FrameError, frameHead, frameReader, longestFrame, PayloadReader, PayloadWriter } from './protocol.ts'

const anyFrame = fc.tuple(fc.integer({ min: 0, max: 255 }), fc.uint8Array({ maxLength: 300 }))

test('frames are decoded as they were encoded, for every split of the stream', () => {
  fc.assert(
    fc.property(fc.array(anyFrame, { maxLength: 20 }), fc.array(fc.integer({ min: 1, max: 40 })), (frames, cuts) => {
      const whole = Buffer.concat(frames.flatMap(([type, bytes]) => [frameHead(type, bytes.length), bytes]))
      const got: [number, Uint8Array][] = []
      const push = frameReader((type, payload) => got.push([type, Uint8Array.from(payload)]))
      let at = 0
      for (const cut of cuts) {
        push(whole.subarray(at, at + cut))
        at += cut
      }
      push(whole.subarray(at))
      assert.deepEqual(
        got,
        frames.map(([type, bytes]) => [type, Uint8Array.from(bytes)]),
      )
    }),
  )
})

test('a frame above the maximum length is refused from its header', () => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(longestFrame + 1, 1)
  assert.throws(() => frameReader(() => assert.fail('no frame'))(head), FrameError)
})

test('payload values are decoded as they were encoded', () => {
  const writer = new PayloadWriter()
    .u8(7)
    .u32(4_000_000_000)
    .u64(2 ** 52 + 1)
    .text('grün')
    .texts(['', 'a'])
  const reader = new PayloadReader(writer.frame(1).subarray(5))
  assert.equal(reader.u8(), 7)
  assert.equal(reader.u32(), 4_000_000_000)
  assert.equal(reader.u64(), 2 ** 52 + 1)
  assert.equal(reader.text(), 'grün')
  assert.deepEqual(
    reader.list(() => reader.text()),
    ['', 'a'],
  )
})

test('a number above the safe range becomes Number.MAX_SAFE_INTEGER', () => {
  assert.equal(new PayloadReader(Buffer.alloc(8, 0xff)).u64(), Number.MAX_SAFE_INTEGER)
})

test('reading an arbitrary payload gives a value or a FrameError', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      const reader = new PayloadReader(Buffer.from(bytes))
      try {
        reader.list(() => [reader.text(), reader.u64()])
      } catch (error) {
        assert.ok(error instanceof FrameError)
      }
    }),
  )
})

test('a list that declares more members than its frame has bytes is refused', () => {
  const reader = new PayloadReader(Buffer.from([0xff, 0xff, 0xff, 0xff, 0]))
  let reads = 0
  assert.throws(() => reader.list(() => reads++), FrameError)
  assert.equal(reads, 0)
})

test('a text with a NUL, which would truncate it on the other side, is not sent', () => {
  assert.throws(() => new PayloadWriter().text('a\0b'), FrameError)
})
