import { ToolError, type UnrecordedView } from '@gantry/contract'
import { type Bus, subjectOf } from '../observe/bus.ts'
import type { Claim } from '../storage/calls/call-store.ts'

/** A call that ended here and whose outcome neither the database nor the spool has taken yet. */
export type UnrecordedOutcome = UnrecordedView

/**
 * Keeps what ended in memory until it is recorded.
 *
 * States of an entry:
 * - *trying*: from the first failure on; tried again after a pause that doubles up to `longestPauseMs`.
 * - *recorded*: the store or the spool took it, or the fence refused it.
 * - *lost*: `giveUp` was called and one more try failed. Its lease then decides what becomes of the call.
 *
 * - Bounds: an entry belongs to a call that has or had a slot, and the worker starts no call while there is an outcome here.
 * - Lease: the caller keeps the lease alive until `record` or `release` resolves, so that no other worker takes the call.
 */
export interface UnrecordedOutcomes {
  /** Outcomes that wait to be recorded. */
  readonly size: number
  list(): readonly UnrecordedOutcome[]
  /** Tries until the outcome is recorded or given up; never rejects. */
  record(claim: Claim, attempt: () => Promise<void>): Promise<void>
  /** Hands a call back; the same, but a call that merely goes on later keeps no other from being started. */
  release(claim: Claim, attempt: () => Promise<void>): Promise<void>
  /** From now on a try that fails is the last one. */
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
  /** Resolves with undefined once a try succeeds, or with the reason of the last one. */
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
