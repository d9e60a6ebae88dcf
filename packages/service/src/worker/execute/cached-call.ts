import type { JsonObject, Result } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { CacheableCall, ResultCache } from './result-cache.ts'

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

export interface CachedCall {
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
