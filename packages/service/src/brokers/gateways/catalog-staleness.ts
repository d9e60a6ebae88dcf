import type { CatalogEntry } from '@gantry/core'
import { refusalOf } from '../transports/redis/errors.ts'
import { textOf } from '../transports/redis/reply.ts'
import { type CatalogRedis, digestsKey } from './catalog-publisher.ts'
import { untilAborted } from './until-aborted.ts'
import type { WrittenCatalog } from './write-catalog.ts'

export interface StalenessOptions {
  readonly redis: CatalogRedis
  /** The catalog that this process wrote last; waits for the first one. */
  readonly own: (signal: AbortSignal) => Promise<Pick<WrittenCatalog, 'hash' | 'digests'>>
  readonly prefix?: string
  /** Whether a request without a hash is stale; it is not when absent. */
  readonly requireHash?: boolean
}

export interface Judged {
  /** As the request has it: anything at all. */
  readonly catalogHash: string | undefined
  /** The tool that would be called now. */
  readonly tool: Pick<CatalogEntry, 'key' | 'digest'>
}

/**
 * Whether a request was made with the tool in mind that would be called now.
 * - Errors: STORE_UNAVAILABLE when it cannot be found out; CANCELLED when the signal aborts.
 */
export type JudgeStale = (judged: Judged, signal: AbortSignal) => Promise<'fresh' | 'stale'>

const hashForm = /^[0-9a-f]{64}$/
const mostRemembered = 10_000

/**
 * A request is fresh when the catalog that it names has its tool as it is now: the last one of this process, one that was
 * current before, or that of another deploy. One that names an unknown catalog, a tool that is not in it or was
 * another one there, or a version that it does not show is stale. One that names no catalog asks for the tool as it is
 * now: its arguments, its sender and the sender's permissions are checked against that one, so that nothing runs with old ones.
 * Tools may have changed since the last catalog was written, so that its hash alone proves nothing.
 */
export function createStaleness(options: StalenessOptions): JudgeStale {
  const { redis, prefix, requireHash = false } = options
  /** A catalog does not change under its hash, so what was found there stays true. */
  const known = new Map<string, string>()
  const digestUnder = async (hash: string, key: string, signal: AbortSignal): Promise<string> => {
    const name = `${hash} ${key}`
    const remembered = known.get(name)
    if (remembered !== undefined) return remembered
    const asking = redis.call(['HGET', digestsKey(hash, prefix), key])
    const found = await untilAborted(asking, signal).catch((error: unknown) => {
      if (refusalOf(error) === 'WRONGTYPE') return null
      throw error
    })
    if (found === null) return ''
    if (known.size >= mostRemembered) known.clear()
    known.set(name, textOf(found))
    return textOf(found)
  }
  return async ({ catalogHash = '', tool }, signal) => {
    if (catalogHash === '') return requireHash ? 'stale' : 'fresh'
    if (!hashForm.test(catalogHash)) return 'stale'
    const { hash, digests } = await options.own(signal)
    const seen = catalogHash === hash ? digests.get(tool.key) : await digestUnder(catalogHash, tool.key, signal)
    return seen === tool.digest ? 'fresh' : 'stale'
  }
}
