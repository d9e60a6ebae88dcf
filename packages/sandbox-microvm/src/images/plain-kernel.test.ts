import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { plainKernel } from './plain-kernel.ts'

const signal = AbortSignal.timeout(60_000)
const kernel = Buffer.from(`\x7fELF${'abcd'.repeat(100)}`, 'latin1')

/** A kernel with one sector before its payload, as the boot protocol of x86 has it. */
function compressed(payload: Buffer): Buffer {
  const head = Buffer.alloc(0x300)
  const start = 0x300
  head.writeUInt8(0, 0x1f1)
  head.writeUInt32LE(start - 512, 0x248)
  head.writeUInt32LE(payload.length, 0x24c)
  return Buffer.concat([head, payload])
}

/** Eight bytes as they are, then a copy of the last four that reaches into itself. */
function lz4(): Buffer {
  const copied = kernel.length - 8 - 1
  const block = Buffer.concat([
    Buffer.of(0x8f),
    kernel.subarray(0, 8),
    Buffer.of(4, 0),
    Buffer.of(255, copied - 4 - 15 - 255),
    Buffer.of(0x10),
    kernel.subarray(-1),
  ])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(block.length)
  return Buffer.concat([Buffer.from('02214c18', 'hex'), length, block, Buffer.of(1, 2, 3, 4)])
}

test('a kernel is unpacked from each of the forms that Debian uses', async () => {
  for (const payload of [gzipSync(kernel), zstdCompressSync(kernel), lz4()]) {
    assert.deepEqual(await plainKernel(compressed(payload), '/nowhere', signal), kernel)
  }
})

test('what is no kernel is refused with the remedy', async () => {
  for (const payload of [Buffer.from('no archive at all'), gzipSync('no program')]) {
    await assert.rejects(plainKernel(compressed(payload), '/nowhere', signal), {
      code: 'RUNTIME_UNAVAILABLE',
      message: /Build on Debian 12 or newer/,
    })
  }
})
