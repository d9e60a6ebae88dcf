import type { ClaimOptions } from '../storage/calls/call-store.ts'

/** How this process claims calls. */
export interface ClaimTerms {
  readonly leaseMs: number
  /** For a claim that is sent now. */
  now(): ClaimOptions
  /** The time of the database after which a claim that is sent now takes nothing; undefined where a claim is never late. */
  readonly notAfter: (() => number) | undefined
}

/** A claim that the database starts later than this takes nothing; less than a client waits for its answer (35 s). */
const claimWithinMs = 20_000

/** `clock` is the time of a database that may answer late; undefined where the database is part of this process. */
export function claimTerms(claim: ClaimOptions, clock: { now(): number } | undefined): ClaimTerms {
  const { leaseMs } = claim
  if (clock === undefined) return { leaseMs, now: () => claim, notAfter: undefined }
  const notAfter = (): number => clock.now() + claimWithinMs
  return { leaseMs, now: () => ({ ...claim, notAfter: notAfter() }), notAfter }
}
