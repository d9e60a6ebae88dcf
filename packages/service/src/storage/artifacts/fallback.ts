import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import type { ArtifactStore, Content, PutOptions, StoredFile } from './artifact-store.ts'
import { piecesOf } from './content.ts'
import { folderArtifacts } from './folder.ts'

export interface SpoolLimits {
  /** Files up to this size are buffered in memory and spooled; larger puts fail while the store is unavailable. */
  readonly fileBytes: number
  /** Limit of files in the spool. */
  readonly files: number
}

/** The result of a drain. */
export interface Drained {
  readonly files: number
  /** Corrupted files, which stay in the spool for an operator to inspect. */
  readonly damaged: number
}

/** An artifact store with a spool. */
export interface SpooledArtifacts extends ArtifactStore {
  /**
   * Moves spooled files to the store; each is removed from the spool only once the store has it. Rejects with the
   * store's error while it is unavailable, and with the signal's reason; the other files stay. Can be repeated or
   * concurrent.
   */
  drain(signal: AbortSignal): Promise<Drained>
}

/** How long after a failure files are spooled without trying the store. */
const restMs = 5_000

/**
 * Spools files in a folder of this machine while the store is unavailable, until `drain`. Spooled files are durable,
 * but other machines cannot read them before they are drained. Files in the folder at the start are those of the last
 * process.
 * - Errors: the store's own, when the spool is full or the file is too large for it.
 */
export function spooledArtifacts(store: ArtifactStore, folder: string, limits: SpoolLimits): SpooledArtifacts {
  const local = folderArtifacts({ folder })
  let unavailable: { readonly until: number; readonly fault: unknown } | undefined
  let keeping = 0

  const keepHere = async (content: Uint8Array, options: PutOptions, fault: unknown): Promise<StoredFile> => {
    keeping += 1
    // Read before the files are counted, so that a put that ends in between is counted at least once.
    const underWay = keeping
    try {
      if ((await countWaiting(local)) + underWay > limits.files) throw fault
      return await local.put(content, options)
    } finally {
      keeping -= 1
    }
  }
  return {
    kind: store.kind,
    ...(store.place === undefined ? {} : { place: store.place }),
    async put(content, options) {
      const taken = await take(content, Math.min(limits.fileBytes, options.maxBytes), options.signal)
      if (!(taken instanceof Uint8Array) || taken.length > limits.fileBytes) return store.put(taken, options)
      if (unavailable !== undefined && performance.now() < unavailable.until)
        return keepHere(taken, options, unavailable.fault)
      try {
        return await store.put(taken, options)
      } catch (fault) {
        if (codeOf(fault) !== 'STORE_UNAVAILABLE') throw fault
        unavailable = { until: performance.now() + restMs, fault }
        return keepHere(taken, options, fault)
      }
    },
    has: async (digest, signal) => (await local.has(digest, signal)) || store.has(digest, signal),
    read: (digest, range, signal) =>
      local.read(digest, range, signal).catch((error: unknown) => {
        if (codeOf(error) !== 'NOT_FOUND') throw error
        return store.read(digest, range, signal)
      }),
    async remove(digest) {
      await local.remove(digest)
      await store.remove(digest)
    },
    async *list(olderThanMs) {
      yield* local.list?.(olderThanMs) ?? []
      yield* store.list?.(olderThanMs) ?? []
    },
    presign: async (digest, download) =>
      (await local.has(digest, download.signal)) ? undefined : store.presign?.(digest, download),
    async drain(signal) {
      const drained = { files: 0, damaged: 0 }
      for await (const digest of waiting(local)) {
        const how = await bring(digest, local, store, signal)
        if (how !== 'gone') drained[how] += 1
      }
      unavailable = undefined
      return drained
    },
  }
}

/** Buffers content up to a size; returns larger content as a stream from its beginning. */
async function take(content: Content, bytes: number, signal: AbortSignal): Promise<Content> {
  if (content instanceof Uint8Array) return content
  const rest = piecesOf(content, signal)
  const taken: Uint8Array[] = []
  let length = 0
  for (let next = await rest.next(); !next.done; next = await rest.next()) {
    taken.push(next.value)
    length += next.value.length
    if (length > bytes) return joined(taken, rest)
  }
  return Buffer.concat(taken)
}

async function* joined(taken: readonly Uint8Array[], rest: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* taken
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}

/** Reads a spooled file completely first, so that a corrupted file is not mistaken for an unavailable store. */
async function bring(
  digest: string,
  from: ArtifactStore,
  to: ArtifactStore,
  signal: AbortSignal,
): Promise<keyof Drained | 'gone'> {
  const opened = await from.read(digest, undefined, signal).catch((error: unknown) => {
    if (codeOf(error) === 'NOT_FOUND') return undefined
    throw error
  })
  if (opened === undefined) return 'gone'
  const content = await buffer(opened).catch((error: unknown) => {
    if (ToolError.is(error) && !error.retryable) return undefined
    throw error
  })
  if (content === undefined) return 'damaged'
  await to.put(content, { maxBytes: content.length, signal })
  if (!(await to.has(digest, signal))) throw notCopied(digest)
  await from.remove(digest)
  return 'files'
}

function notCopied(digest: string): ToolError {
  return new ToolError('STORE_UNAVAILABLE', `The artifact store accepted the file ${digest} but does not have it.`)
}

function waiting(local: ArtifactStore): AsyncIterable<string> {
  return local.list?.(Number.NEGATIVE_INFINITY) ?? Readable.from([])
}

async function countWaiting(local: ArtifactStore): Promise<number> {
  let count = 0
  for await (const _ of waiting(local)) count += 1
  return count
}

function codeOf(error: unknown): string | undefined {
  return ToolError.is(error) ? error.code : undefined
}

/** The configured artifact store; a remote one has a spool. */
export type ArtifactFiles = ArtifactStore & Partial<Pick<SpooledArtifacts, 'drain'>>

/** The content that a probe writes; the job for unreferenced files removes it. */
const probeContent = Buffer.alloc(4_096, 'gantry')

/** Resolves when the artifact store accepts a write. */
export async function probeFiles(files: ArtifactFiles, signal: AbortSignal): Promise<void> {
  await files.put(probeContent, { maxBytes: probeContent.length, signal })
}

/** The artifact store, with the success or failure of each write emitted on the bus. */
export function reportingFiles(files: ArtifactFiles, bus: Bus): ArtifactFiles {
  const writing = { dependency: 'artifacts', operation: 'put' } as const
  return {
    ...files,
    async put(content, options) {
      try {
        const file = await files.put(content, options)
        bus.emit('dependency:worked', writing)
        return file
      } catch (error) {
        if (ToolError.is(error) && error.code === 'STORE_UNAVAILABLE') {
          bus.emit('dependency:failed', { ...writing, reason: error.message })
        }
        throw error
      }
    },
  }
}
