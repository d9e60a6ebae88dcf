import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { type ErrorCode, ToolError } from '@gantry/contract'
import { pause } from '../resilience/retry.ts'

/** The result of reading a file. Only regular files are read: a pipe would block, and a device may never end. */
export type PrivateFile =
  | { readonly state: 'read'; readonly bytes: Buffer; readonly stats: Stats }
  | { readonly state: 'not-a-file' }
  | { readonly state: 'too-long' }

const chunkBytes = 4_096

/** Reads a regular file of at most `most` bytes, never through a link; rejects with the system error. */
export function readPrivate(path: string, most: number): Promise<PrivateFile> {
  return readRegular(path, most, constants.O_NOFOLLOW ?? 0)
}

/** The same for a file that a configuration names, through links too. */
export function readBounded(path: string, most: number): Promise<PrivateFile> {
  return readRegular(path, most, 0)
}

async function readRegular(path: string, most: number, links: number): Promise<PrivateFile> {
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | links)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) return { state: 'not-a-file' }
    const bytes = await readAtMost(handle, most + 1, stats.size)
    return bytes.length > most ? { state: 'too-long' } : { state: 'read', bytes, stats }
  } finally {
    await handle.close()
  }
}

/** Reads to the end or to `most` bytes; `size` is only a hint, because the file may change after `stat`. */
async function readAtMost(handle: FileHandle, most: number, size: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let total = 0
  while (total < most) {
    const buffer = Buffer.alloc(Math.min(most - total, Math.max(chunkBytes, size - total + 1)))
    const { bytesRead } = await handle.read(buffer)
    if (bytesRead === 0) break
    chunks.push(buffer.subarray(0, bytesRead))
    total += bytesRead
  }
  return Buffer.concat(chunks, total)
}

/** Replaces a file atomically by one with mode 600. */
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

/** Creates a file with mode 600; rejects with EEXIST when the path exists. */
export async function createPrivate(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Syncs the folder, so that a rename survives a power failure, where the system supports it. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined)
  await handle?.sync().catch(() => undefined)
  await handle?.close()
}

/** Whether a system error means that the file does not exist. */
export function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

const lookEveryMs = 25

export interface LockOptions {
  readonly signal: AbortSignal
  /** The error code when the lock is not released in time. */
  readonly code: ErrorCode
  /** How long to wait for the lock; ten seconds when absent. */
  readonly waitMs?: number
}

/**
 * Runs `work` under an exclusive lock file, within this process and across processes.
 * A stale lock is never broken: two processes that do so at once would both run. The error names the file to remove.
 */
export async function whileLocked<T>(file: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw unwritable(lock, options.code, error)
  })
  await take(lock, options)
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

async function take(lock: string, { signal, code, waitMs = 10_000 }: LockOptions): Promise<void> {
  const holder = `${process.pid} on ${hostname()}`
  for (let waitedMs = 0; ; waitedMs += lookEveryMs) {
    try {
      return await createPrivate(lock, holder)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw unwritable(lock, code, error)
    }
    if (waitedMs >= waitMs) throw await busy(lock, code)
    await pause(lookEveryMs, signal)
  }
}

async function busy(lock: string, code: ErrorCode): Promise<ToolError> {
  const holder = (await readFile(lock, 'utf8').catch(() => 'unknown')).slice(0, 100)
  const file = lock.slice(0, -'.lock'.length)
  return new ToolError(code, `${file} is being written by process ${holder}; if that has ended, remove ${lock}.`)
}

function unwritable(lock: string, code: ErrorCode, cause: unknown): ToolError {
  return new ToolError(code, `${lock} cannot be written.`, { cause })
}
