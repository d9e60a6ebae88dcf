import { setTimeout as sleep } from 'node:timers/promises'
import type { AdmittedCall, CallStore, ClaimOptions } from '../storage/calls/call-store.ts'

/**
 * Calls that were submitted with a claim and got no answer. The store may hold them as begun by this process, which
 * does not know of the claim: when their lease expires, a call with effect `once` would be `unknown` although no tool
 * ran. So this releases their leases repeatedly until no submission can commit any more, and another worker claims
 * them. A release does nothing to a call that the store does not have, or that another worker holds.
 */
export interface UnansweredClaims {
  add(calls: readonly Pick<AdmittedCall, 'callId'>[], claim: Pick<ClaimOptions, 'notAfter'>): void
  /** Stops releasing; the leases that are left expire. */
  close(): Promise<void>
}

export interface UnansweredOptions {
  readonly store: Pick<CallStore, 'release'>
  /** The clock of the store. */
  readonly now: () => number
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

const pauseMs = 1_000

/** The fence of a call that is claimed with its submission; only this process knows its id. */
const fence = 1

export function createUnansweredClaims({ store, now, pause = pauseFor }: UnansweredOptions): UnansweredClaims {
  /** The time until which the submission of each call can commit. */
  const left = new Map<string, number>()
  const closing = new AbortController()
  let running: Promise<void> | undefined

  const handBack = async (): Promise<void> => {
    while (left.size > 0 && !closing.signal.aborted) {
      const at = now()
      const taken = [...left]
      const released = await store.release(taken.map(([callId]) => ({ callId, fence }))).then(
        () => true,
        () => false,
      )
      for (const [callId, notAfter] of released ? taken : []) if (at > notAfter) left.delete(callId)
      if (left.size > 0) await pause(pauseMs, closing.signal)
    }
    running = undefined
  }
  return {
    add(calls, { notAfter = Number.NEGATIVE_INFINITY }) {
      for (const { callId } of calls) left.set(callId, notAfter)
      if (left.size > 0) running ??= handBack()
    },
    async close() {
      closing.abort()
      await running
    },
  }
}

function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => undefined)
}
