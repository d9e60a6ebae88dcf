import type { ResponseWatch } from './dependency-health.ts'

/** A dependency whose unresponsiveness the test starts and ends. */
export function switchedResponses(): ResponseWatch & { readonly listeners: number; fall(): void; end(): void } {
  const listeners = new Set<() => void>()
  let unresponsive = false
  return {
    isUnresponsive: () => unresponsive,
    onUnresponsive(_, listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    get listeners() {
      return listeners.size
    },
    fall() {
      unresponsive = true
      for (const listener of [...listeners]) listener()
    },
    end() {
      unresponsive = false
    },
  }
}
