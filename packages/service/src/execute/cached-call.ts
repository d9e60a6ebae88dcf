import type { JsonObject, Result } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { Claim } from '../stores/call-store.ts'
import type { CacheableCall, ResultCache } from './result-cache.ts'

/** Gives the result of the same call made before, while it is good; else makes the call and keeps what came of it. */
export async function cachedCall(
  { cache, executor, claim, args }: CachedCall,
  run: () => Promise<Result>,
): Promise<Result> {
  const call = cacheable(executor, claim, args)
  if (cache === undefined || call === undefined) return run()
  const found = await cache.get(call)
  if (found !== undefined) return { ...found, callId: claim.callId, attempts: 1, startedAt: new Date().toISOString() }
  const result = await run()
  await cache.put(call, result)
  return result
}

export interface CachedCall {
  /** Absent where there is none. */
  readonly cache: ResultCache | undefined
  readonly executor: Pick<Executor, 'catalog'>
  /** Its caller's right to the tool was checked when it was admitted. */
  readonly claim: Claim
  readonly args: unknown
}

/** Undefined for a tool that says nothing of a cache, or that is another one by now. */
function cacheable({ catalog }: Pick<Executor, 'catalog'>, { call }: Claim, args: unknown): CacheableCall | undefined {
  try {
    const { tool, id, digest } = catalog.find(call.tool)
    if (tool.cache === undefined || digest !== call.digest) return undefined
    return { rule: tool.cache, identity: call.identity, tool, toolId: id, digest, args: args as JsonObject }
  } catch {
    return undefined
  }
}
