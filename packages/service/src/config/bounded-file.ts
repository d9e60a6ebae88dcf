import { closeSync, constants, openSync, readSync, statSync } from 'node:fs'

/** What became of reading a file: its text, or why it is not read. */
export type BoundedFile =
  | { readonly state: 'read'; readonly text: string }
  | { readonly state: 'not-a-file' }
  | { readonly state: 'too-long' }

const chunkBytes = 65_536

/**
 * Reads a regular file of at most `limit` bytes; throws what the system says when it cannot.
 * Anything else is refused unopened, because a pipe would block where no signal is heard and a device may never end.
 * A file can change after it was looked at: hence not waiting for a writer, and counting what is read.
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

/** Reads until the end or `most` bytes; the size is a guess only, as files of /proc say 0. */
function readAtMost(descriptor: number, most: number, size: number): Buffer {
  const chunks: Buffer[] = []
  let total = 0
  while (total < most) {
    const room = Buffer.allocUnsafe(Math.min(most - total, Math.max(chunkBytes, size - total + 1)))
    const count = readSync(descriptor, room)
    if (count === 0) break
    chunks.push(room.subarray(0, count))
    total += count
  }
  return Buffer.concat(chunks, total)
}
