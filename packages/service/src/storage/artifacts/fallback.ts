import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import type { ArtifactStore, Content, PutOptions, StoredFile } from './artifact-store.ts'
import { piecesOf } from './content.ts'
import { folderArtifacts } from './folder.ts'

export interface SpoolLimits {
  /** Larger files do not wait here; putting them fails when the store is away. They are held in memory while they are put. */
  readonly fileBytes: number
  /** How many files wait here at most. */
  readonly files: number
}

/** What a drain did. */
export interface Drained {
  readonly files: number
  /** Files that are damaged here and stay, for a person to look at. */
  readonly damaged: number
}

/** A store with a waiting room. */
export interface SpooledArtifacts extends ArtifactStore {
  /**
   * Brings what waits to the store, and removes here only what is there then. Rejects with the store's error when it is
   * away, and with the signal's reason; what was not brought waits on. Harmless when repeated, or done by two at once.
   */
  drain(signal: AbortSignal): Promise<Drained>
}

/** For so long after a failure nobody waits for the store to fail again. */
const restMs = 5_000

/**
 * A store that may be away: what is put meanwhile, and is not too large, waits in a folder of this machine until `drain`.
 * It is durable there, but on this machine only: until it was drained, other machines find no such file. What is in the
 * folder when the process starts is what the last one left.
 * - Errors: when the folder is full or the file too large for it, the store's own.
 */
export function spooledArtifacts(store: ArtifactStore, folder: string, limits: SpoolLimits): SpooledArtifacts {
  const local = folderArtifacts({ folder })
  let away: { readonly until: number; readonly fault: unknown } | undefined
  let keeping = 0

  const keepHere = async (content: Uint8Array, options: PutOptions, fault: unknown): Promise<StoredFile> => {
    keeping += 1
    // Read before the files are counted: a put that ends meanwhile is then in one of the two numbers at least.
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
    async put(content, options) {
      const taken = await take(content, Math.min(limits.fileBytes, options.maxBytes), options.signal)
      if (!(taken instanceof Uint8Array) || taken.length > limits.fileBytes) return store.put(taken, options)
      if (away !== undefined && performance.now() < away.until) return keepHere(taken, options, away.fault)
      try {
        return await store.put(taken, options)
      } catch (fault) {
        if (codeOf(fault) !== 'STORE_UNAVAILABLE') throw fault
        away = { until: performance.now() + restMs, fault }
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
      away = undefined
      return drained
    },
  }
}

/** All of the content when it is not more than so many bytes; else the same content, from its beginning. */
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

/** Its files are small, and read whole first, so that a damaged one is told from a store that is away. */
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
  if (!(await to.has(digest, signal))) throw notBrought(digest)
  await from.remove(digest)
  return 'files'
}

function notBrought(digest: string): ToolError {
  return new ToolError('STORE_UNAVAILABLE', `The artifact store took the file ${digest} and does not have it.`)
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

/** The configured artifact store; one behind a network brings the spool for when it is unavailable. */
export type ArtifactFiles = ArtifactStore & Partial<Pick<SpooledArtifacts, 'drain'>>

/** What a probe writes; the job that removes files without a row removes it again. */
const probeContent = Buffer.alloc(4_096, 'gantry')

/** Resolves when the artifact store takes a write. */
export async function probeFiles(files: ArtifactFiles, signal: AbortSignal): Promise<void> {
  await files.put(probeContent, { maxBytes: probeContent.length, signal })
}

/** The artifact store, which emits after each write whether the dependency worked. */
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
