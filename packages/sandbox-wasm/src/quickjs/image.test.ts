import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pageBytes, webAssembly } from '../guest/binary.ts'
import { takeImage } from './engine.ts'

function filled(): { memory: InstanceType<typeof webAssembly.Memory>; bytes: Uint8Array } {
  const memory = new webAssembly.Memory({ initial: 4, maximum: 8 })
  const bytes = new Uint8Array(memory.buffer)
  bytes.fill(7, pageBytes + 10, pageBytes + 20)
  bytes.fill(9, 4 * pageBytes - 1)
  return { memory, bytes }
}

test('restoring an image resets every byte, in used and in empty pages', () => {
  const { memory, bytes } = filled()
  const before = bytes.slice()
  const image = takeImage(memory)
  for (const at of [0, pageBytes - 1, pageBytes + 10, 2 * pageBytes, 3 * pageBytes + 5, 4 * pageBytes - 1]) {
    bytes[at] = 255
    assert.equal(image.restore(), true)
    assert.deepEqual(Buffer.compare(bytes, before), 0, `byte ${at}`)
  }
  bytes.fill(1)
  assert.equal(image.restore(), true)
  assert.equal(Buffer.compare(bytes, before), 0)
})

test('a memory that has grown is not restored', () => {
  const { memory } = filled()
  const image = takeImage(memory)
  memory.grow(1)
  assert.equal(image.restore(), false)
})
