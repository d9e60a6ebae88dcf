import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip, zstdDecompress } from 'node:zlib'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { runProgram } from '@gantry/sandbox-containers/internal/images/run-program'

/** Offsets of the header that every compressed kernel for x86 begins with. */
const header = { sectors: 0x1f1, payload: 0x248, length: 0x24c } as const
const sectorBytes = 512
/** More than any kernel, so that a broken package cannot fill the memory. */
const mostBytes = 512 * 2 ** 20

/**
 * The kernel without the part that unpacks it: Firecracker runs no other, and QEMU starts it faster. Debian compresses its
 * kernels in one way or the other, by release.
 */
export async function plainKernel(compressed: Buffer, work: string, signal: AbortSignal): Promise<Buffer> {
  const start = (compressed.readUInt8(header.sectors) + 1) * sectorBytes + compressed.readUInt32LE(header.payload)
  const packed = compressed.subarray(start, start + compressed.readUInt32LE(header.length))
  const kernel = await unpacked(packed, work, signal)
  if (kernel.subarray(0, 4).toString('latin1') === '\x7fELF') return kernel
  throw unavailable('The kernel of the package cannot be unpacked.', 'Build on Debian 12 or newer.')
}

async function unpacked(packed: Buffer, work: string, signal: AbortSignal): Promise<Buffer> {
  const magic = packed.readUInt32BE(0)
  if (magic === 0x02214c18) return unpackLz4(packed)
  if (magic >>> 16 === 0x1f8b) return promisify(gunzip)(packed, { maxOutputLength: mostBytes })
  if (magic === 0x28b52ffd) return promisify(zstdDecompress)(packed, { maxOutputLength: mostBytes })
  if (magic !== 0xfd377a58) return Buffer.alloc(0)
  const path = join(work, 'vmlinux.xz')
  // The last four bytes are the length of what comes out, which is no part of the archive.
  await writeFile(path, packed.subarray(0, -4))
  await runProgram('xz', ['-dk', '--single-stream', path], { signal })
  return readFile(path.slice(0, -'.xz'.length))
}

const lz4BlockBytes = 8 * 2 ** 20

/** The form that `lz4 -l` writes: blocks, each behind its length; what is left at the end is the length of the whole. */
function unpackLz4(packed: Buffer): Buffer {
  const blocks: Buffer[] = []
  let at = 4
  while (at + 8 <= packed.length) {
    const length = packed.readUInt32LE(at)
    blocks.push(unpackLz4Block(packed.subarray(at + 4, at + 4 + length)))
    at += 4 + length
  }
  return Buffer.concat(blocks)
}

/** Runs of bytes as they are, each followed by a copy of what was written before. */
function unpackLz4Block(block: Buffer): Buffer {
  const out = Buffer.allocUnsafe(lz4BlockBytes)
  let [at, length] = [0, 0]
  const extended = (short: number): number => {
    let whole = short
    if (short < 15) return whole
    for (let more = 255; more === 255; whole += more) {
      more = block.readUInt8(at)
      at += 1
    }
    return whole
  }
  while (at < block.length) {
    const token = block.readUInt8(at)
    at += 1
    const literals = extended(token >>> 4)
    length += block.copy(out, length, at, at + literals)
    at += literals
    if (at >= block.length) break
    const offset = block.readUInt16LE(at)
    at += 2
    const copied = extended(token & 15) + 4
    // Byte by byte, because a copy may reach into itself.
    for (let index = 0; index < copied; index += 1) {
      out.writeUInt8(out.readUInt8(length - offset), length)
      length += 1
    }
  }
  return out.subarray(0, length)
}
