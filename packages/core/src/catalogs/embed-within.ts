import { ToolError } from '@gantry/contract'
import type { Embedder } from './embedder.ts'

/**
 * Asks the embedder, and stops waiting when the time is over or the signal aborts, whether or not it listens to that.
 * Rejects with the signal's reason, with TIMEOUT, or as the embedder does. The embedder's own signal aborts in both
 * cases, and what it answers later is dropped.
 */
export async function embedWithin(
  embedder: Embedder,
  texts: readonly string[],
  ms: number,
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  signal.throwIfAborted()
  const stop = new AbortController()
  const given = Promise.withResolvers<never>()
  const giveUp = (reason: unknown): void => {
    given.reject(reason)
    stop.abort(reason)
  }
  const onAbort = (): void => giveUp(signal.reason)
  const timer = setTimeout(() => giveUp(new ToolError('TIMEOUT', `The embedder took longer than ${ms} ms.`)), ms)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([given.promise, embedder.embed(texts, stop.signal)])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}
