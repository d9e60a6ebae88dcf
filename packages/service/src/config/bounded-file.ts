import { closeSync, constants, openSync, readSync, statSync } from 'node:fs'

/** The text of a file, or why it was not read. */
export type BoundedFile =
  | { readonly state: 'read'; readonly text: string }
  | { readonly state: 'not-a-file' }
  | { readonly state: 'too-long' }

const chunkBytes = 65_536

/**
 * Reads a regular file of at most `limit` bytes; throws the system error when it cannot.
 * Anything else is refused before it is opened, because a pipe would block the thread and a device may never end.
 * The file can change after its stat: so the open does not block on a pipe, and the bytes read are counted.
 */
export function readBoundedFile(path: string, limit: number): BoundedFile {
  const found = statSync(path)
  if (!found.isFile()) return { state: 'not-a-file' }
  if (found.size > limit) return { state: 'too-long' }
  const descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    const bytes = readAtMost(descriptor, limit + 1, found.size)
    return bytes.length > limit ? { state: 'too-long' } : { state: 'read', text: bytes.toString('utf8') }
  } finally {
    closeSync(descriptor)
  }
}

/** Reads to the end or `most` bytes. `size` is only a hint: files of /proc report 0. */
function readAtMost(descriptor: number, most: number, size: number): Buffer {
  const chunks: Buffer[] = []
  let total = 0
  while (total < most) {
    const buffer = Buffer.allocUnsafe(Math.min(most - total, Math.max(chunkBytes, size - total + 1)))
    const count = readSync(descriptor, buffer)
    if (count === 0) break
    chunks.push(buffer.subarray(0, count))
    total += count
  }
  return Buffer.concat(chunks, total)
}
