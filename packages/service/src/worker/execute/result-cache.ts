import { createHash } from 'node:crypto'
import type { Identity, JsonObject, Result, Tool } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Executor } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { within } from '@gantry/core/internal/resilience/abort'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import type { Claim } from '../../storage/calls/call-store.ts'

/** Whom a cached result is for: the same principal with the same permissions, or the whole tenant. */
type CacheScope = 'principal' | 'tenant'

/** The cache declaration of a tool. */
interface CacheRule {
  readonly ttlMs: number
  /** `principal` when absent. */
  readonly scope?: CacheScope
}

/** A call whose result may be cached: it was checked and authorized like any other. */
export interface CacheableCall {
  readonly rule: CacheRule
  /** As established by the host. */
  readonly identity: Identity
  readonly tool: Pick<Tool, 'effect' | 'secrets'>
  /** Exact id with version, and the digest of the definition: another definition is another tool. */
  readonly toolId: string
  readonly digest: string
  readonly args: JsonObject
}

/**
 * Caches results of calls that change nothing.
 * - Errors: neither method rejects; when Redis is unavailable, `get` misses and `put` does nothing.
 * - A hit is the result of an earlier call, with that call's id and times.
 */
export interface ResultCache {
  get(call: CacheableCall): Promise<Result | undefined>
  /** Caches the result if `mayKeep` allows it. */
  put(call: CacheableCall, result: Result): Promise<void>
}

interface ResultCacheOptions {
  readonly redis: Pick<RedisConnections, 'call'>
  /** Longer times are reduced to this; an hour when absent. */
  readonly maxTtlMs?: number
  /** Larger results are not cached; 256 KiB of JSON when absent. */
  readonly maxBytes?: number
  /** The time after which a lookup counts as a miss; 250 ms when absent. */
  readonly waitMs?: number
  /** The prefix of the keys; `gantry:results:` when absent. */
  readonly prefix?: string
}

export function createResultCache(options: ResultCacheOptions): ResultCache {
  const { redis, maxTtlMs = 3_600_000, maxBytes = 262_144, waitMs = 250, prefix = 'gantry:results:' } = options
  const keyOf = (call: CacheableCall): string => prefix + cacheKey(call)
  return {
    async get(call) {
      if (!isReading(call.tool)) return undefined
      const found = await ifInTime(waitMs, redis.call(['GET', keyOf(call)]))
      return Buffer.isBuffer(found) && found.length <= maxBytes ? resultOf(found.toString()) : undefined
    },
    async put(call, result) {
      const ttlMs = Math.floor(Math.min(call.rule.ttlMs, maxTtlMs))
      if (!(ttlMs > 0) || !isReading(call.tool) || !mayKeep(result)) return
      const text = JSON.stringify(result)
      if (Buffer.byteLength(text) > maxBytes) return
      await ifInTime(waitMs, redis.call(['SET', keyOf(call), text, 'PX', ttlMs]))
    },
  }
}

/** The tenant is always part of it; the principal and its permissions are, unless the scope is the tenant. */
function cacheKey({ rule, identity, toolId, digest, args }: CacheableCall): string {
  const { tenant, principal, permissions, roles = [] } = identity
  const scope = rule.scope ?? 'principal'
  const asker = scope === 'tenant' ? [] : [principal, permissions.toSorted(), roles.toSorted()]
  return createHash('sha256')
    .update(canonicalJson([scope, tenant, asker, toolId, digest, args]))
    .digest('hex')
}

/** Only outputs are cached; a repeat would not have the artifacts and effects of the first call. */
function mayKeep({ status, artifacts, effects }: Result): boolean {
  return status === 'ok' && artifacts.length === 0 && effects.length === 0
}

/** The output of a tool with secrets may contain what they unlock. */
function isReading({ effect, secrets = [] }: CacheableCall['tool']): boolean {
  return effect === 'read' && secrets.length === 0
}

function resultOf(text: string): Result | undefined {
  try {
    const result: unknown = JSON.parse(text)
    return isResult(result) && mayKeep(result) ? result : undefined
  } catch {
    return undefined
  }
}

function isResult(value: unknown): value is Result {
  return isObject(value) && isText(value.status) && Array.isArray(value.artifacts) && Array.isArray(value.effects)
}

/** Undefined when it fails or takes too long. */
function ifInTime<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const nothing = () => undefined
  return within(ms, work, nothing).catch(nothing)
}

/** Returns the cached result of an equal call; else makes the call and caches its result. */
export async function cachedCall(
  { cache, executor, claim, args, now = Date.now }: CachedCall,
  run: () => Promise<Result>,
): Promise<Result> {
  const call = cacheable(executor, claim, args)
  if (cache === undefined || call === undefined || !(await isAllowed(executor, claim, args))) return run()
  const found = await cache.get(call)
  const startedAt = new Date(now()).toISOString()
  if (found !== undefined) return { ...found, callId: claim.callId, attempts: 1, startedAt }
  const result = await run()
  await cache.put(call, result)
  return result
}

interface CachedCall {
  /** Absent without Redis. */
  readonly cache: ResultCache | undefined
  readonly executor: Pick<Executor, 'catalog' | 'check'>
  readonly claim: Claim
  readonly args: unknown
  /** Milliseconds since 1970; of this machine's clock when absent. */
  readonly now?: () => number
}

/** A cached result must not bypass a denial or an approval that applies to this call. */
async function isAllowed(executor: Pick<Executor, 'check'>, { call }: Claim, args: unknown): Promise<boolean> {
  const { tool, identity } = call
  return executor.check(tool, args, { identity }).then(
    ({ asks }) => !asks,
    () => false,
  )
}

/** Undefined for a tool that declares no cache, or whose definition has changed. */
function cacheable({ catalog }: Pick<Executor, 'catalog'>, { call }: Claim, args: unknown): CacheableCall | undefined {
  try {
    const { tool, id, digest, callDigest } = catalog.find(call.tool)
    if (tool.cache === undefined || (call.digest !== digest && call.digest !== callDigest)) return undefined
    return { rule: tool.cache, identity: call.identity, tool, toolId: id, digest, args: args as JsonObject }
  } catch {
    return undefined
  }
}
