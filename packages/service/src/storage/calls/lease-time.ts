import { createBatch } from '../batch.ts'
import type { CallStore, ClaimOptions, Holder } from './call-store.ts'

/**
 * The database's time in this process, so that what is recorded of a call does not depend on a wrong clock.
 *
 * It advances with the monotonic clock of this process. Each answer of the database bounds the offset between the two,
 * because the database read its clock between the request and the answer. An estimate within these bounds is kept
 * unless the bounds are the narrowest so far.
 */
export interface DatabaseClock {
  /** Milliseconds since 1970; by this machine's clock until the database answered once. */
  now(): number
  /** Reads the database's time and corrects the estimate; rejects as `read` does. */
  learn(read: () => Promise<Date>): Promise<void>
}

export function createDatabaseClock(
  monotonic: () => number = () => performance.now(),
  wall: () => number = Date.now,
): DatabaseClock {
  let known: { readonly offset: number; readonly width: number } | undefined
  return {
    now: () => Math.floor(known === undefined ? wall() : monotonic() + known.offset),
    async learn(read) {
      const asked = monotonic()
      const at = (await read()).getTime()
      const answered = monotonic()
      const width = answered - asked
      const isPossible = known !== undefined && known.offset >= at - answered && known.offset <= at - asked
      if (known !== undefined && isPossible && width >= known.width) return
      known = { offset: at - (asked + answered) / 2, width }
    },
  }
}

/** The options with which this process claims calls. */
export interface ClaimTerms {
  readonly leaseMs: number
  /** The options of a claim that is sent now. */
  now(): ClaimOptions
  /** The database time after which a claim that is sent now claims nothing; undefined when a claim cannot be late. */
  readonly notAfter: (() => number) | undefined
}

/** A claim that the database starts later claims nothing; shorter than a client waits for its answer (35 s). */
const claimWithinMs = 20_000

/** `clock` is the clock of a database that may answer late; undefined for a database inside this process. */
export function claimTerms(claim: ClaimOptions, clock: Pick<DatabaseClock, 'now'> | undefined): ClaimTerms {
  const { leaseMs } = claim
  if (clock === undefined) return { leaseMs, now: () => claim, notAfter: undefined }
  const notAfter = (): number => clock.now() + claimWithinMs
  return { leaseMs, now: () => ({ ...claim, notAfter: notAfter() }), notAfter }
}

/**
 * Filters new claims to those that are still leased to this worker. When the answer was slow, or this process was
 * suspended, a lease may have expired before it could be extended; then the store extends it again and reports which
 * are lost. A claim in doubt is dropped: the call is claimed again once its lease has expired.
 */
export async function stillHeld<Held extends Holder>(
  store: Pick<CallStore, 'extend'>,
  claims: readonly Held[],
  { askedAt, leaseMs, now = () => performance.now() }: StillHeldOptions,
): Promise<readonly Held[]> {
  let held = claims
  for (let since = askedAt; held.length > 0 && now() - since > leaseMs / 2; ) {
    since = now()
    const lost = new Set(
      await store.extend(held, leaseMs).then(
        (answer) => answer.lost,
        () => held.map(({ callId }) => callId),
      ),
    )
    held = held.filter(({ callId }) => !lost.has(callId))
  }
  return held
}

export interface StillHeldOptions {
  /** When the claim was sent, by `now`. */
  readonly askedAt: number
  readonly leaseMs: number
  readonly now?: () => number
}

/**
 * Records durably that execution of a call begins, many calls in one statement; false for a call that is no longer
 * leased. A worker that was suspended until the answer arrived checks its lease again, because another worker may have
 * begun since.
 */
export function createBegin(
  store: Pick<CallStore, 'begin' | 'extend'>,
  { leaseMs, now = () => performance.now() }: Omit<StillHeldOptions, 'askedAt'>,
): (holder: Holder) => Promise<boolean> {
  const beginning = createBatch<Holder, boolean>(
    async (holders) => {
      const askedAt = now()
      const begun = new Set(await store.begin(holders))
      const mine = holders.filter(({ callId }) => begun.has(callId))
      const held = new Set(await stillHeld(store, mine, { askedAt, leaseMs, now }))
      return holders.map((holder) => held.has(holder))
    },
    { atOnce: 2 },
  )
  return (holder) => beginning.add(holder)
}
