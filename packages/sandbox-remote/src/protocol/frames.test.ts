import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createFrameReader, createFrameWriter, type Frame, FrameError, type FrameType, frameTypes } from './frames.ts'

const key = { id: 'test', key: 'k'.repeat(48) }
const frames = fc.array(
  fc.record({
    type: fc.constantFrom(...(Object.values(frameTypes) as FrameType[])),
    payload: fc.uint8Array({ maxLength: 300 }),
  }),
  { minLength: 1, maxLength: 8 },
)

function written(list: readonly Frame[], request = 'r'): Buffer {
  return Buffer.concat(list.map(createFrameWriter(key, request)))
}

test('frames are read as they were written, however the bytes are split', () => {
  fc.assert(
    fc.property(frames, fc.integer({ min: 1, max: 97 }), (list, size) => {
      const bytes = written(list)
      const reader = createFrameReader(key, 'r')
      const read: Frame[] = []
      for (let at = 0; at < bytes.length; at += size) read.push(...reader.push(bytes.subarray(at, at + size)))
      assert.deepEqual(
        read.map(({ type, payload }) => [type, [...payload]]),
        list.map(({ type, payload }) => [type, [...payload]]),
      )
    }),
  )
})

test('no changed byte, dropped frame or frame of another response is accepted', () => {
  fc.assert(
    fc.property(frames, fc.nat(), fc.integer({ min: 1, max: 255 }), (list, place, change) => {
      const bytes = written(list)
      const at = place % bytes.length
      bytes[at] = (bytes[at] ?? 0) ^ change
      const reader = createFrameReader(key, 'r')
      let read: readonly Frame[] = []
      try {
        read = reader.push(bytes)
      } catch (error) {
        assert.ok(error instanceof FrameError)
      }
      assert.ok(read.length < list.length)
    }),
  )
  const [first, second] = [
    { type: 1, payload: Buffer.from('a') } as const,
    { type: 1, payload: Buffer.from('b') } as const,
  ]
  const whole = written([first, second])
  const half = written([first]).length
  assert.throws(() => createFrameReader(key, 'r').push(whole.subarray(half)), FrameError)
  assert.throws(() => createFrameReader(key, 'other').push(whole), FrameError)
})

test('a frame that says it is too long is refused before its bytes arrive', () => {
  const head = Buffer.from([0xff, 0xff, 0xff, 0xff, 1])
  assert.throws(() => createFrameReader(key, 'r').push(head), FrameError)
})
