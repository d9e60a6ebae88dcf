import { createHash } from 'node:crypto'
import type { Identity, JsonObject, Result, Tool } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import type { Claim } from '../../storage/calls/call-store.ts'

/** For whom a kept result is good: whoever asked, with the same permissions, or everybody of his tenant. */
type CacheScope = 'principal' | 'tenant'

/** What a tool declares about its results. */
interface CacheRule {
  readonly ttlMs: number
  /** `principal` when absent. */
  readonly scope?: CacheScope
}

/** A call whose result may be known: it was checked and authorized as if it were not. */
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
 * Results of calls that change nothing, kept for a while.
 * - Errors: neither rejects; when Redis is away nothing is known, and nothing is kept.
 * - What is found is the result of an earlier call, with that call's id and times.
 */
export interface ResultCache {
  get(call: CacheableCall): Promise<Result | undefined>
  /** Keeps what may be kept, see `mayKeep`, and lets the rest be. */
  put(call: CacheableCall, result: Result): Promise<void>
}

interface ResultCacheOptions {
  readonly redis: Pick<RedisConnections, 'call'>
  /** Longer times are cut to this; an hour when absent. */
  readonly maxTtlMs?: number
  /** Larger results are not kept; 256 KiB of JSON when absent. */
  readonly maxBytes?: number
  /** How long a look may take before it counts as a miss; 250 ms when absent. */
  readonly waitMs?: number
  /** Before the hash in the names of the keys; `gantry:results:` when absent. */
  readonly prefix?: string
}

export function createResultCache(options: ResultCacheOptions): ResultCache {
  const { redis, maxTtlMs = 3_600_000, maxBytes = 262_144, waitMs = 250, prefix = 'gantry:results:' } = options
  const keyOf = (call: CacheableCall): string => prefix + cacheKey(call)
  return {
    async get(call) {
      if (!isReading(call.tool)) return undefined
      const found = await within(waitMs, redis.call(['GET', keyOf(call)]))
      return Buffer.isBuffer(found) && found.length <= maxBytes ? resultOf(found.toString()) : undefined
    },
    async put(call, result) {
      const ttlMs = Math.floor(Math.min(call.rule.ttlMs, maxTtlMs))
      if (!(ttlMs > 0) || !isReading(call.tool) || !mayKeep(result)) return
      const text = JSON.stringify(result)
      if (Buffer.byteLength(text) > maxBytes) return
      await within(waitMs, redis.call(['SET', keyOf(call), text, 'PX', ttlMs]))
    },
  }
}

/** The tenant is always part of it; who asks and what he may do, unless the tool says that they do not matter. */
function cacheKey({ rule, identity, toolId, digest, args }: CacheableCall): string {
  const { tenant, principal, permissions, roles = [] } = identity
  const scope = rule.scope ?? 'principal'
  const asker = scope === 'tenant' ? [] : [principal, permissions.toSorted(), roles.toSorted()]
  return createHash('sha256')
    .update(canonicalJson([scope, tenant, asker, toolId, digest, args]))
    .digest('hex')
}

/** Only what a call found; what it left elsewhere would not be there a second time. */
function mayKeep({ status, artifacts, effects }: Result): boolean {
  return status === 'ok' && artifacts.length === 0 && effects.length === 0
}

/** A tool that is given secrets may answer with what they open. */
function isReading({ effect, secrets = [] }: CacheableCall['tool']): boolean {
  return effect === 'read' && secrets.length === 0
}

function resultOf(text: string): Result | undefined {
  try {
    const result = JSON.parse(text) as Result
    return mayKeep(result) ? result : undefined
  } catch {
    return undefined
  }
}

/** Undefined when it fails or takes too long. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  return Promise.race([work.catch(() => undefined), late]).finally(() => clearTimeout(timer))
}

/** Gives the result of the same call made before, while it is good; else makes the call and keeps what came of it. */
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
  /** Absent where there is none. */
  readonly cache: ResultCache | undefined
  readonly executor: Pick<Executor, 'catalog' | 'check'>
  readonly claim: Claim
  readonly args: unknown
  /** Milliseconds since 1970; of this machine's clock when absent. */
  readonly now?: () => number
}

/** What is refused by now, or needs a person's approval, was not allowed by letting another call through. */
async function isAllowed(executor: Pick<Executor, 'check'>, { call }: Claim, args: unknown): Promise<boolean> {
  const { tool, identity } = call
  return executor.check(tool, args, { identity }).then(
    ({ asks }) => !asks,
    () => false,
  )
}

/** Undefined for a tool that says nothing of a cache, or that is another one by now. */
function cacheable({ catalog }: Pick<Executor, 'catalog'>, { call }: Claim, args: unknown): CacheableCall | undefined {
  try {
    const { tool, id, digest, callDigest } = catalog.find(call.tool)
    if (tool.cache === undefined || (call.digest !== digest && call.digest !== callDigest)) return undefined
    return { rule: tool.cache, identity: call.identity, tool, toolId: id, digest, args: args as JsonObject }
  } catch {
    return undefined
  }
}
