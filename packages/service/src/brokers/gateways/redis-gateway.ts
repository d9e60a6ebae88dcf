import { setTimeout } from 'node:timers/promises'
import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { RedisSettings } from '../../config/broker-settings.ts'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import { createBatch } from '../../storage/batch.ts'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { abortedWait, listOf, refusalOf, textOf } from '../transports/redis/reply.ts'
import { type CatalogRedis, digestsKey, isCurrent, startCatalogPublishing } from './catalog-publisher.ts'
import type { GatewayView } from './gateway-names.ts'
import { holdersOf, redisSessions, type SessionOptions, type Sessions } from './session-identity.ts'
import type { WrittenCatalog } from './write-catalog.ts'

/**
 * What the service shares with gateways over Redis: their sessions, the published catalog, and notifications of
 * configuration changes.
 */
export interface RedisGateway {
  /** The identity of a session; rejects with UNAUTHENTICATED, or STORE_UNAVAILABLE while Redis is unavailable. */
  session(session: string): Promise<Identity>
  /**
   * Rejects with CATALOG_STALE when the sender saw another tool than the one that would be called, or one that was removed.
   * Rejects with SERVICE_UNAVAILABLE when the sender saw the current catalog of another worker: the message is left to
   * a worker with that tool.
   */
  judge(entry: CatalogEntry | undefined, catalogHash: string): Promise<void>
  stop(): Promise<void>
}

interface RedisGatewayOptions {
  readonly redis: RedisConnections
  /** The current settings. */
  readonly settings: () => RedisSettings
  readonly snapshots: Snapshots
  readonly view: GatewayView
  readonly bus: Bus
  readonly reload: () => Promise<void>
}

const never = new AbortController().signal

export function startRedisGateway({
  redis,
  settings,
  snapshots,
  view,
  bus,
  reload,
}: RedisGatewayOptions): RedisGateway {
  const read = createTextReader(redis)
  let known: { readonly settings: RedisSettings; readonly sessions: Sessions } | undefined
  const sessions = (): Sessions => {
    const now = settings()
    if (known?.settings !== now) known = { settings: now, sessions: redisSessions(sessionOptions(read, now)) }
    return known.sessions
  }
  const failed = (what: string) => (error: unknown) => {
    bus.emit('upkeep:failed', { what, reason: error instanceof Error ? error.message : String(error) })
  }
  const { requireHash, catalog, backgroundMs } = settings()
  const publishing = catalog
    ? startCatalogPublishing({
        redis,
        view,
        failed: failed('catalog'),
        noBackground: backgroundMs === 0,
        executor: () => snapshots.current.executor,
        usersOf: (tool) => holdersOf(tool, sessionOptions(read, settings())),
      })
    : undefined
  const isStale =
    publishing === undefined ? undefined : createStaleness({ redis, own: publishing.written, requireHash })
  const unfollow = snapshots.onReplace(() => publishing?.changed())
  const unlisten = listenConfigUpdates(redis, reload, { failed: failed('reload') })
  return {
    // One signal for each request: adding a listener takes time in proportion to the listeners of a signal.
    session: (session) => sessions().identify(session, new AbortController().signal),
    async judge(entry, catalogHash) {
      if (publishing === undefined || isStale === undefined) return
      const { hash } = await publishing.written(never)
      // A request without a catalog hash saw no catalog, so an unknown tool is not a stale one.
      const unnamed = catalogHash === '' && !requireHash
      if (entry === undefined && (unnamed || catalogHash === hash)) return
      if (entry !== undefined && (await isStale({ catalogHash, tool: entry }, never)) === 'fresh') return
      if (catalogHash !== hash && (await isCurrent(redis, catalogHash))) {
        throw new ToolError('SERVICE_UNAVAILABLE', 'Another worker serves the version of the tool that the caller saw.')
      }
      throw new ToolError('CATALOG_STALE', 'The catalog has changed since the caller saw it; read it again.')
    },
    async stop() {
      unfollow()
      await Promise.all([unlisten(), publishing?.stop()])
    },
  }
}

/** The session options of the settings. */
function sessionOptions(read: SessionOptions['read'], settings: RedisSettings): SessionOptions {
  const { tenant, tenants: guilds, permissions, users } = settings
  return { read, tenant, guilds, permissions, holders: byPermission(users) }
}

/** Inverts permissions by user into users by permission. */
function byPermission(users: RedisSettings['users']): { readonly [permission: string]: readonly string[] } {
  const holders: { [permission: string]: string[] } = {}
  for (const [user, permissions] of Object.entries(users)) {
    for (const permission of permissions) holders[permission] = [...(holders[permission] ?? []), user]
  }
  return holders
}

interface UpdateOptions {
  /** `sys:config:updated` when absent. */
  readonly channel?: string
  /** Receives the errors of a reload or a subscription that failed; both are retried. */
  readonly failed: (error: unknown) => void
  /** The least time between two reloads, or two attempts to subscribe; 1,000 when absent. */
  readonly pauseMs?: number
}

/**
 * Reloads when a gateway publishes that the configuration changed. The content of a message is ignored, and however
 * many arrive, one reload runs at a time and at most one more follows it. Messages that were published without a
 * subscription are lost, so a new subscription counts as a change; `watchConfig` also watches the file itself. Returns
 * the function that stops it, which waits for a running reload.
 */
export function listenConfigUpdates(
  redis: Pick<RedisConnections, 'subscribe'>,
  reload: () => Promise<void>,
  { channel = 'sys:config:updated', failed, pauseMs = 1_000 }: UpdateOptions,
): () => Promise<void> {
  const life = new AbortController()
  const rest = (): Promise<void> => setTimeout(pauseMs, undefined, life).catch(() => undefined)
  let running: Promise<void> | undefined
  let again = false

  const run = async (): Promise<void> => {
    while (again && !life.signal.aborted) {
      again = false
      await reload().catch(failed)
      await rest()
    }
    running = undefined
  }
  const changed = (): void => {
    again = true
    running ??= run()
  }
  const listen = async (): Promise<(() => Promise<void>) | undefined> => {
    for (let missed = false; !life.signal.aborted; missed = true) {
      try {
        const stop = await redis.subscribe(channel, changed)
        if (missed) changed()
        return stop
      } catch (error) {
        failed(error)
        await rest()
      }
    }
    return undefined
  }
  const listening = listen()
  return async () => {
    life.abort()
    const stop = await listening
    await stop?.()
    await running
  }
}

export interface StalenessOptions {
  readonly redis: CatalogRedis
  /** The catalog that this process wrote last; waits for the first one. */
  readonly own: (signal: AbortSignal) => Promise<Pick<WrittenCatalog, 'hash' | 'digests'>>
  readonly prefix?: string
  /** Whether a request without a hash is stale; false when absent. */
  readonly requireHash?: boolean
}

interface Judged {
  /** The hash of the request: unchecked input. */
  readonly catalogHash: string | undefined
  /** The tool that would be called now. */
  readonly tool: Pick<CatalogEntry, 'key' | 'digest'>
}

/**
 * Whether the sender of a request saw the tool that would be called now.
 * - Errors: STORE_UNAVAILABLE when that cannot be determined; CANCELLED when the signal aborts.
 */
type JudgeStale = (judged: Judged, signal: AbortSignal) => Promise<'fresh' | 'stale'>

const hashForm = /^[0-9a-f]{64}$/
const mostRemembered = 10_000

/**
 * A request is fresh when the catalog that it names has the current digest of its tool: the latest catalog of this
 * process, a former one, or that of another deploy. A request is stale when it names an unknown catalog, or a catalog
 * without the tool or with another digest of it. A request without a catalog means the current tool: its arguments,
 * its sender and the sender's permissions are checked against that one. Tools may have changed since the last catalog
 * was written, so its hash alone proves nothing.
 */
export function createStaleness(options: StalenessOptions): JudgeStale {
  const { redis, prefix, requireHash = false } = options
  /** A catalog does not change under its hash, so digests that were read stay valid. */
  const known = new Map<string, string>()
  const digestUnder = async (hash: string, key: string, signal: AbortSignal): Promise<string> => {
    const name = `${hash} ${key}`
    const remembered = known.get(name)
    if (remembered !== undefined) return remembered
    const asking = redis.call(['HGET', digestsKey(hash, prefix), key])
    const found = await unlessAborted(asking, signal, abortedWait).catch((error: unknown) => {
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

/** A value of another type counts as empty. */
const readTexts = `
  local found = {}
  for n, key in ipairs(KEYS) do
    local text = redis.pcall('GETRANGE', key, 0, ARGV[1])
    found[n] = type(text) == 'string' and text or ''
  end
  return found`

/**
 * Reads the first bytes of texts, up to and including `last`; empty for a key that does not exist or has another type.
 * Messages arrive in bulk, each with a text to read: the reads of one turn of the event loop are one command, which
 * costs a tenth of as many pipelined commands.
 */
export function createTextReader(
  redis: Pick<RedisConnections, 'call' | 'pipeline' | 'cluster'>,
): (key: string, last: number) => Promise<Uint8Array> {
  const reading = createBatch<{ readonly key: string; readonly last: number }, Uint8Array>(
    async (asked) => {
      const last = Math.max(...asked.map((one) => one.last))
      if (redis.cluster) return readApart(redis, asked, last)
      const found = listOf(await redis.call(['EVAL', readTexts, asked.length, ...asked.map(({ key }) => key), last]))
      return found.map((text) => (Buffer.isBuffer(text) ? text : Buffer.alloc(0)))
    },
    { atOnce: 4 },
  )
  return (key, last) => reading.add({ key, last })
}

/** In a cluster each server has some of the keys, so that one command cannot read all. */
async function readApart(
  redis: Pick<RedisConnections, 'pipeline'>,
  asked: readonly { readonly key: string }[],
  last: number,
): Promise<readonly Uint8Array[]> {
  const answers = await redis.pipeline(asked.map(({ key }) => ['GETRANGE', key, 0, last] as const))
  return answers.map((answer) => {
    if (ToolError.is(answer) && refusalOf(answer) !== 'WRONGTYPE') throw answer
    return Buffer.isBuffer(answer) ? answer : Buffer.alloc(0)
  })
}
