import { ToolError, type UnrecordedView } from '@gantry/contract'
import { type Bus, subjectOf } from '../observe/bus.ts'
import type { Claim } from '../storage/calls/call-store.ts'

/** A call that ended here and whose outcome neither the database nor the spool has accepted yet. */
export type UnrecordedOutcome = UnrecordedView

/**
 * Keeps outcomes in memory until they are recorded.
 * | ## States of an outcome
 * - `trying`: recording failed at least once.
 * - `recorded`: the store or the spool has it, or the fence refused it.
 * - `lost`: it is dropped. When the lease expires, the store decides on the call.
 * | ## Transitions
 * - `trying` on the first failure.
 * - `trying` → `trying`: an attempt failed; the next follows after a pause that doubles up to `longestPauseMs`.
 * - `trying` → `recorded`: an attempt succeeded.
 * - `trying` → `lost`: an attempt that began after `giveUp` failed.
 * | ## Contract
 * - Bounds: an entry belongs to a call that has or had a slot, and the worker starts no call while there is an outcome
 *   here.
 * - Lease: the caller renews the lease until `record` or `release` resolves, so that no other worker claims the call.
 */
export interface UnrecordedOutcomes {
  /** The number of outcomes that wait to be recorded. */
  readonly size: number
  list(): readonly UnrecordedOutcome[]
  /** Retries until the outcome is recorded or given up; never rejects. */
  record(claim: Claim, attempt: () => Promise<void>): Promise<void>
  /** Retries the release of a call in the same way, but a release does not keep other calls from being started. */
  release(claim: Claim, attempt: () => Promise<void>): Promise<void>
  /** From now on the next failed attempt is the last one. */
  giveUp(): void
}

export interface UnrecordedOptions {
  readonly bus: Bus
  readonly now: () => Date
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
  /** Called after the last outcome was recorded, so that calls can be started again. */
  readonly emptied?: () => void
}

const firstPauseMs = 100
const longestPauseMs = 2_000

export function createUnrecordedOutcomes({ bus, now, random, pause, emptied }: UnrecordedOptions): UnrecordedOutcomes {
  const held = new Map<Claim, UnrecordedOutcome>()
  const ending = new AbortController()
  /** Resolves with undefined once an attempt succeeds, or with the reason of the last one. */
  const tried = async (
    attempt: () => Promise<void>,
    failed: (reason: string, tries: number) => void,
  ): Promise<string | undefined> => {
    for (let tries = 1, pauseMs = firstPauseMs; ; tries += 1, pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      const last = ending.signal.aborted
      const reason = await attempt().then(
        () => undefined,
        (error: unknown) => reasonOf(error),
      )
      if (reason === undefined || last) return reason
      failed(reason, tries)
      await pause(pauseMs * (0.5 + random() / 2), ending.signal)
    }
  }
  return {
    get size() {
      return held.size
    },
    list: () => [...held.values()],
    async record(claim, attempt) {
      const subject = subjectOf(claim.call)
      const { callId, tool, tenant } = subject
      const reason = await tried(attempt, (why, tries) => {
        const since = held.get(claim)?.since ?? now().toISOString()
        held.set(claim, { callId, tool, tenant, since, tries, reason: why })
        if (tries === 1) bus.emit('outcome:held', { ...subject, reason: why, held: held.size })
      })
      const was = held.delete(claim)
      if (reason !== undefined) bus.emit('outcome:lost', { ...subject, reason })
      else if (was) bus.emit('outcome:recorded', { ...subject, held: held.size })
      if (was && held.size === 0) emptied?.()
    },
    async release(_claim, attempt) {
      await tried(attempt, () => undefined)
    },
    giveUp: () => ending.abort(),
  }
}

function reasonOf(error: unknown): string {
  if (ToolError.is(error)) return `${error.code}: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}
