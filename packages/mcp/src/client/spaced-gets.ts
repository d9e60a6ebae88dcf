import { pause } from '@gantry/core/internal/resilience/retry'

/** A stream that ends is opened again at once, the next ones no sooner than this after the one before. */
const gapMs = 1_000

/**
 * Spaces the requests by which streams are opened again: a server may say how soon that is to be, and one that says a
 * millisecond would be asked hundreds of times a second for as long as the backend lives.
 */
export function spacedGets(fetch: typeof globalThis.fetch, life: AbortSignal): typeof globalThis.fetch {
  let recent = Number.NEGATIVE_INFINITY
  let burst = 2
  return async (input, init) => {
    if ((init?.method ?? 'GET').toUpperCase() !== 'GET') return fetch(input, init)
    const now = performance.now()
    if (now - recent >= gapMs) burst = 2
    const waitMs = burst > 0 ? 0 : Math.max(0, recent + gapMs - now)
    burst -= 1
    recent = now + waitMs
    if (waitMs > 0) await pause(waitMs, init?.signal ?? life)
    return fetch(input, init)
  }
}
