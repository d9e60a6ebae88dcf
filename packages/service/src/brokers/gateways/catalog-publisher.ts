import type { RedisConnections } from '../transports/redis/connection.ts'
import { listOf, numberOf, textOf } from '../transports/redis/reply.ts'
import type { WrittenCatalog } from './write-catalog.ts'

/** What is needed of Redis here. */
export type CatalogRedis = Pick<RedisConnections, 'call' | 'cluster'>

export interface PublishOptions {
  /** What the names of the keys begin with; `sg:tools:catalog` when absent. */
  readonly prefix?: string
  /** `sg:pubsub:tools:catalog` when absent. */
  readonly channel?: string
  /** For how long versions and digests of a catalog are known after its last publisher has gone; an hour when absent. */
  readonly keepMs?: number
}

/** What became of a catalog: published as this version, or there already. */
export interface Published {
  readonly version: number
  readonly fresh: boolean
}

const usualPrefix = 'sg:tools:catalog'
const usualChannel = 'sg:pubsub:tools:catalog'
const hour = 3_600_000
const fieldsAtOnce = 500
/** However often the tools change, there are no more old versions than these. */
const versionsKept = 16
/** Whoever has a catalog says so several times in this time. */
const aliveMs = 20_000

/** Under which the digests of a catalog are kept, by `namespace:name`. */
export function digestsKey(hash: string, prefix = usualPrefix): string {
  return `${prefix}:hash:${hash}`
}

/**
 * Compares, moves and tells in one step, so that two who publish the same at once make one version of it. `state` says
 * of which version we know what is in it; a pointer that somebody else moved does not fit it, and counts as another
 * catalog. What was current before goes after a time, and with it what is older than the last few.
 */
const moveScript = `
local current = redis.call('GET', KEYS[2])
if current and redis.call('GET', KEYS[3]) == current .. ' ' .. ARGV[1]
  and redis.call('EXISTS', ARGV[4] .. current) == 1 then
  return { tonumber(current), 0 }
end
local seq = redis.call('INCR', KEYS[1])
redis.call('SET', ARGV[4] .. seq, ARGV[3])
redis.call('SET', KEYS[2], seq)
redis.call('SET', KEYS[3], seq .. ' ' .. ARGV[1])
if current and string.match(current, '^%d+$') then redis.call('PEXPIRE', ARGV[4] .. current, ARGV[5]) end
redis.call('DEL', ARGV[4] .. (seq - ARGV[7]))
redis.call('PUBLISH', ARGV[6], '{"version": ' .. seq .. ', "schema_hash": "' .. ARGV[2] .. '"}')
return { seq, 1 }
`

/**
 * Whether somebody stands for what is current: its version is there, and somebody has said of late that he has it. We
 * say so of our own, and keep its digests from being forgotten.
 */
const keepScript = `
local own = redis.call('PEXPIRE', KEYS[3], ARGV[2])
redis.call('SET', KEYS[4], 1, 'PX', ARGV[4])
local current = redis.call('GET', KEYS[1])
local state = redis.call('GET', KEYS[2])
if not current or not state or redis.call('EXISTS', ARGV[1] .. current) == 0 then return { own, 0 } end
local seq, fingerprint, hash = string.match(state, '^(%d+) (%x+):(%x+)$')
if seq ~= current then return { own, 1 } end
return { own, redis.call('EXISTS', ARGV[3] .. hash .. ':alive') }
`

/**
 * Makes a catalog the current one, unless it is already, and tells the gateways: `{"version", "schema_hash"}` as JSON on
 * the channel, which is what theirs read. Digests are there before anybody can see the hash.
 * - Concurrency: any number of processes, with the same catalog or others; the last one stays.
 * - Errors: STORE_UNAVAILABLE; done again, it does what is left to do.
 */
export async function publishCatalog(
  redis: CatalogRedis,
  written: WrittenCatalog,
  options: PublishOptions = {},
): Promise<Published> {
  const { prefix = usualPrefix, channel = usualChannel, keepMs = hour } = options
  const own = digestsKey(written.hash, prefix)
  await keepDigests(redis, written, own, keepMs)
  await redis.call(['SET', `${own}:alive`, 1, 'PX', Math.min(aliveMs, keepMs)])
  const keys = [`${prefix}:seq`, `${prefix}:current`, `${prefix}:state`]
  const content = Buffer.from(written.bytes.buffer, written.bytes.byteOffset, written.bytes.byteLength)
  const state = `${written.fingerprint}:${written.hash}`
  const parameters = [state, written.hash, content, `${prefix}:v`, keepMs, channel, versionsKept]
  if (redis.cluster) return movePointer(redis, { state, hash: written.hash, content, prefix, keepMs, channel })
  const [version, fresh] = listOf(await redis.call(['EVAL', moveScript, keys.length, ...keys, ...parameters]))
  return { version: numberOf(version) ?? 0, fresh: numberOf(fresh) === 1 }
}

/**
 * Keeps what is known of a catalog from being forgotten while a process has it. False when it must be published again:
 * Redis lost it, or what is current belongs to nobody who is still there.
 */
export async function keepCatalog(
  redis: CatalogRedis,
  written: WrittenCatalog,
  { prefix = usualPrefix, keepMs = hour }: PublishOptions = {},
): Promise<boolean> {
  const own = digestsKey(written.hash, prefix)
  const keys = [`${prefix}:current`, `${prefix}:state`, own, `${own}:alive`]
  const parameters = [`${prefix}:v`, keepMs, digestsKey('', prefix), Math.min(aliveMs, keepMs)]
  const asked = redis.cluster
    ? await keepPointer(redis, own, prefix, keepMs)
    : await redis.call(['EVAL', keepScript, keys.length, ...keys, ...parameters])
  const [kept, alive] = listOf(asked)
  // Whoever slept for too long says again what he knows, and leaves the pointer to those who were awake.
  if (numberOf(kept) === 0) await keepDigests(redis, written, own, keepMs)
  return numberOf(alive) === 1
}

/** Whether a hash is that of the catalog that gateways are shown now, whoever has published it. */
export async function isCurrent(redis: CatalogRedis, hash: string, prefix = usualPrefix): Promise<boolean> {
  const state = textOf(await redis.call(['GET', `${prefix}:state`]))
  return /^[0-9a-f]{64}$/.test(hash) && state.endsWith(`:${hash}`)
}

/** An empty catalog has a hash as well, and a key without fields would not be there. */
async function keepDigests(
  redis: CatalogRedis,
  { digests }: WrittenCatalog,
  key: string,
  keepMs: number,
): Promise<void> {
  const fields = ['', '', ...[...digests].flat()]
  for (let from = 0; from < fields.length; from += 2 * fieldsAtOnce) {
    await redis.call(['HSET', key, ...fields.slice(from, from + 2 * fieldsAtOnce)])
    if (from === 0) await redis.call(['PEXPIRE', key, keepMs])
  }
}

interface Moved {
  readonly state: string
  readonly hash: string
  readonly content: Buffer
  readonly prefix: string
  readonly keepMs: number
  readonly channel: string
}

/**
 * What `moveScript` does, command by command, for a cluster, whose servers share the keys that gateways know by name. Two
 * who publish the same at once may then make two versions of it, of which the last one stays.
 */
async function movePointer(redis: CatalogRedis, moved: Moved): Promise<Published> {
  const { prefix, keepMs, state, content, hash, channel } = moved
  const version = (number: string | number): string => `${prefix}:v${number}`
  const [current, known] = await Promise.all([textAt(redis, `${prefix}:current`), textAt(redis, `${prefix}:state`)])
  const isThere = current !== '' && known === `${current} ${state}` && (await exists(redis, version(current)))
  if (isThere) return { version: Number(current), fresh: false }
  const number = numberOf(await redis.call(['INCR', `${prefix}:seq`])) ?? 0
  await redis.call(['SET', version(number), content])
  await redis.call(['SET', `${prefix}:current`, number])
  await redis.call(['SET', `${prefix}:state`, `${number} ${state}`])
  if (/^\d+$/.test(current)) await redis.call(['PEXPIRE', version(current), keepMs])
  await redis.call(['DEL', version(number - versionsKept)])
  await redis.call(['PUBLISH', channel, `{"version": ${number}, "schema_hash": "${hash}"}`])
  return { version: number, fresh: true }
}

/** What `keepScript` does and answers, command by command. */
async function keepPointer(redis: CatalogRedis, own: string, prefix: string, keepMs: number): Promise<number[]> {
  const kept = numberOf(await redis.call(['PEXPIRE', own, keepMs])) ?? 0
  await redis.call(['SET', `${own}:alive`, 1, 'PX', Math.min(aliveMs, keepMs)])
  const [current, state] = await Promise.all([textAt(redis, `${prefix}:current`), textAt(redis, `${prefix}:state`)])
  if (current === '' || state === '' || !(await exists(redis, `${prefix}:v${current}`))) return [kept, 0]
  const [, number, hash = ''] = /^(\d+) [0-9a-f]+:([0-9a-f]+)$/.exec(state) ?? []
  if (number !== current) return [kept, 1]
  return [kept, (await exists(redis, `${digestsKey(hash, prefix)}:alive`)) ? 1 : 0]
}

async function textAt(redis: CatalogRedis, key: string): Promise<string> {
  return textOf((await redis.call(['GET', key])) ?? undefined)
}

async function exists(redis: CatalogRedis, key: string): Promise<boolean> {
  return (await redis.call(['EXISTS', key])) === 1
}
