import { createHash, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { ensureKey } from '../../config/service-files.ts'
import type { ArtifactStore, ByteRange, Content, PutOptions, StoredFile } from './artifact-store.ts'
import {
  type CheckedStreamOptions,
  checkedStream,
  corrupted,
  createDigest,
  digitsOf,
  notThere,
  piecesOf,
} from './content.ts'

/**
 * Stores artifacts as files below a folder that only its owner may read: `ab/cd/abcd…`, by the digits of the digest.
 * A file is written under a temporary name, synced and renamed, so that a file named by a digest is complete. The first
 * put of a process removes temporary files of dead processes.
 */
export function folderArtifacts(options: { readonly folder: string }): ArtifactStore {
  const folder = resolve(options.folder)
  const drafts = join(folder, 'tmp')
  const pathOf = (digest: string): string | undefined => {
    const digits = digitsOf(digest)
    return digits === undefined ? undefined : join(folder, digits.slice(0, 2), digits.slice(2, 4), digits)
  }
  const unavailable = (cause: unknown): ToolError => {
    const isFull = codeOf(cause) === 'ENOSPC' || codeOf(cause) === 'EDQUOT'
    const message = isFull
      ? `The disk of the artifact folder ${folder} is full.`
      : `The artifact folder ${folder} cannot be read or written.`
    return new ToolError('STORE_UNAVAILABLE', message, { cause })
  }
  let prepared: Promise<void> | undefined
  const prepare = (): Promise<void> => {
    prepared ??= makeFolder(drafts).then(() => removeLeftDrafts(drafts))
    return prepared
  }
  return {
    kind: 'folder',
    async put(content, options) {
      options.signal.throwIfAborted()
      const draft = join(drafts, draftName())
      try {
        await prepare()
        const file = await write(draft, content, options)
        await place(draft, pathOf(file.digest) ?? '')
        return file
      } catch (error) {
        prepared = undefined
        await rm(draft, { force: true }).catch(() => undefined)
        options.signal.throwIfAborted()
        throw isOfSystem(error) ? unavailable(error) : error
      }
    },
    async has(digest, signal) {
      signal.throwIfAborted()
      const path = pathOf(digest)
      if (path === undefined) return false
      return stat(path).then(
        (found) => found.isFile(),
        (error: unknown) => {
          if (isAbsent(error)) return false
          throw unavailable(error)
        },
      )
    },
    async read(digest, range, signal) {
      signal.throwIfAborted()
      const path = pathOf(digest)
      if (path === undefined) throw notThere(digest)
      const handle = await openFile(path).catch((error: unknown) => {
        throw isAbsent(error) ? notThere(digest, error) : unavailable(error)
      })
      if (range !== undefined) return readPieces(handle, { range, signal, fault: unavailable })
      const whole = { start: 0, end: Number.POSITIVE_INFINITY }
      return readPieces(handle, { range: whole, signal, check: checkOf(digest), fault: unavailable })
    },
    async remove(digest) {
      const path = pathOf(digest)
      if (path === undefined) return
      await rm(path, { force: true }).catch((error: unknown) => {
        throw unavailable(error)
      })
    },
    list: (olderThanMs) => oldFiles(folder, Date.now() - olderThanMs),
    async place() {
      await makeFolder(folder)
      return (await ensureKey(join(folder, 'id'), placeForm, () => randomBytes(16).toString('hex'))).key
    },
  }
}

const placeForm = /^[0-9a-f]{32}$/

/** The digests of files written before a time, without those removed during the listing. */
async function* oldFiles(folder: string, before: number): AsyncGenerator<string> {
  const namesIn = (...path: string[]): Promise<string[]> =>
    readdir(join(folder, ...path)).catch((error: unknown) => {
      if (isAbsent(error) || codeOf(error) === 'ENOTDIR') return []
      throw error
    })
  for (const first of await namesIn()) {
    if (!/^[0-9a-f]{2}$/.test(first)) continue
    for (const second of await namesIn(first)) {
      for (const digits of await namesIn(first, second)) {
        const found = await stat(join(folder, first, second, digits)).catch(() => undefined)
        const digest = `sha256:${digits}`
        if (digitsOf(digest) !== undefined && found !== undefined && found.mtimeMs < before) yield digest
      }
    }
  }
}

/** Writes a new file up to the size limit and syncs it. */
async function write(path: string, content: Content, { maxBytes, signal }: PutOptions): Promise<StoredFile> {
  const digest = createDigest()
  let bytes = 0
  const handle = await open(path, 'wx', 0o600)
  try {
    for await (const piece of piecesOf(content, signal)) {
      bytes += piece.length
      if (bytes > maxBytes) {
        throw new ToolError('RESULT_TOO_LARGE', `The file is larger than ${maxBytes} bytes, which is the limit.`)
      }
      digest.add(piece)
      await handle.writeFile(piece)
    }
    signal.throwIfAborted()
    await handle.sync()
  } finally {
    await handle.close()
  }
  return { digest: digest.end(), bytes }
}

/** Renames a complete file to its final path and syncs the folder. */
async function place(draft: string, path: string): Promise<void> {
  await makeFolder(dirname(path))
  await rename(draft, path)
  await syncFolder(dirname(path))
}

function checkOf(expected: string) {
  const digest = createDigest()
  return {
    add: digest.add,
    end(): void {
      if (digest.end() !== expected) throw corrupted(expected)
    },
  }
}

/** Opens a regular file without following symlinks. */
async function openFile(path: string): Promise<FileHandle> {
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0)
  return open(path, flags)
}

/** Creates a folder with its missing parents and syncs them. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

/** Syncs a folder, so that a new name in it survives a power failure. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

const dayMs = 86_400_000
const pattern = /^([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{16}$/

/** Identifies this machine in file names, because a folder can be shared and pids are local to a machine. */
function machine(): string {
  return createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
}

/** The temporary name of a file, with machine and process. */
export function draftName(): string {
  return `${machine()}-${process.pid}-${randomBytes(8).toString('hex')}`
}

/**
 * Removes temporary files of dead processes: those of this machine whose process does not exist or is younger than the
 * file, and all without a write for a day. Files that cannot be read or removed are left for the next time.
 */
async function removeLeftDrafts(folder: string): Promise<void> {
  const names = await readdir(folder)
  await Promise.all(names.map((name) => removeIfLeft(join(folder, name), name).catch(() => undefined)))
}

async function removeIfLeft(path: string, name: string): Promise<void> {
  const [, home, pid] = pattern.exec(name) ?? []
  if (home === undefined) return
  const { mtimeMs } = await stat(path)
  const mine = home === machine()
  const processStart = Date.now() - process.uptime() * 1_000
  const before = Number(pid) === process.pid && mtimeMs < processStart
  if ((mine && (before || !isAlive(Number(pid)))) || mtimeMs < Date.now() - dayMs) await rm(path, { force: true })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

interface FileReaderOptions extends Omit<CheckedStreamOptions, 'close'> {
  readonly range: ByteRange
  /** Converts a system error for the reader. */
  fault(cause: unknown): Error
}

const pieceBytes = 65_536

/** A range of an open file as a stream, which owns the file handle. */
function readPieces(handle: FileHandle, { range, fault, ...options }: FileReaderOptions): Readable {
  return checkedStream(filePieces(handle, range, fault), { ...options, close: () => handle.close() })
}

async function* filePieces(handle: FileHandle, { start, end }: ByteRange, fault: FileReaderOptions['fault']) {
  for (let at = start; at < end; ) {
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytes, end - at))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, at).catch((cause: unknown) => {
      throw fault(cause)
    })
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}
