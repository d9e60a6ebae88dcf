import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/** What became of reading a file. Nothing but regular files is read: a pipe would block, a device may never end. */
export type PrivateFile =
  | { readonly state: 'read'; readonly bytes: Buffer; readonly stats: Stats }
  | { readonly state: 'not-a-file' }
  | { readonly state: 'too-long' }

const chunkBytes = 4_096

/** Reads a regular file of at most `most` bytes, never through a link; rejects with what the system says when it cannot. */
export async function readPrivate(path: string, most: number): Promise<PrivateFile> {
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)
  const handle = await open(path, flags)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) return { state: 'not-a-file' }
    const bytes = await readAtMost(handle, most + 1, stats.size)
    return bytes.length > most ? { state: 'too-long' } : { state: 'read', bytes, stats }
  } finally {
    await handle.close()
  }
}

/** Reads until the end or `most` bytes; the size is a guess only, because a file can change after it was looked at. */
async function readAtMost(handle: FileHandle, most: number, size: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let total = 0
  while (total < most) {
    const room = Buffer.alloc(Math.min(most - total, Math.max(chunkBytes, size - total + 1)))
    const { bytesRead } = await handle.read(room)
    if (bytesRead === 0) break
    chunks.push(room.subarray(0, bytesRead))
    total += bytesRead
  }
  return Buffer.concat(chunks, total)
}

/** Writes a file that only its owner may read, whole or not at all, in place of the one that is there. */
export async function replacePrivate(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await createPrivate(draft, text)
    await rename(draft, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

/** Makes a file that only its owner may read; rejects with EEXIST when there is something. */
export async function createPrivate(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Makes a rename last through a power cut, where the system can. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined)
  await handle?.sync().catch(() => undefined)
  await handle?.close()
}

/** Whether a system error says that there is nothing under this name. */
export function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}
