import type { Result } from '@gantry/contract'
import type { CallRecords } from '../../storage/calls/call-records.ts'
import type { AdmittedCall, CallStore, Claim, Ending, Holder } from '../../storage/calls/call-store.ts'

/** An empty store to test, and access to its records. */
export interface StoreFixture {
  readonly store: CallStore
  /** The same calls, as seen by another process. */
  readonly other: CallStore
  /** Advances the time of the store. */
  pass(ms: number): Promise<void>
  records(): Promise<CallRecords>
}

export type Cases = { readonly [sentence: string]: (fixture: StoreFixture) => Promise<void> }

/** Claim options of the first worker. */
export const mine = { worker: 'w1', leaseMs: 10_000 }
/** Claim options of the second worker. */
export const theirs = { worker: 'w2', leaseMs: 10_000 }

export function someCall(callId: string, given: Partial<AdmittedCall> = {}): AdmittedCall {
  return {
    callId,
    kind: 'call',
    identity: { principal: 'ada', tenant: 'acme', permissions: ['math:*'] },
    fingerprint: 'f',
    tool: 'math:add:1.0.0',
    digest: 'sha256:d',
    effect: 'read',
    payload: '{"a":1}',
    payloadBytes: 7,
    ...given,
  }
}

export function manyCalls(count: number, given: Partial<AdmittedCall> = {}): AdmittedCall[] {
  return Array.from({ length: count }, (_, index) => someCall(`c${String(index).padStart(4, '0')}`, given))
}

export function someResult(callId: string, given: Partial<Result> = {}): Result {
  return {
    callId,
    tool: { id: 'math:add', version: '1.0.0' },
    status: 'ok',
    output: 3,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 1,
    ...given,
  }
}

export function someEnding({ callId, fence }: Holder, given: Partial<Ending> = {}): Ending {
  const result = given.result ?? someResult(callId)
  const text = JSON.stringify(result)
  return { callId, fence, result, text, bytes: text.length, ...given }
}

/** Claims the only claimable call; throws when there is none or more than one. */
export async function claimOne(store: CallStore, options = mine): Promise<Claim> {
  const [claim, ...more] = await store.claim(2, options)
  if (claim === undefined || more.length > 0) throw new Error(`There were ${more.length + (claim ? 1 : 0)} calls.`)
  return claim
}

/** Claims a call and lets its lease expire; returns the lost claim. */
export async function loseOne({ store, pass }: StoreFixture, begin = false): Promise<Claim> {
  const claim = await claimOne(store)
  if (begin) await store.begin([claim])
  await pass(mine.leaseMs + 1_000)
  await store.reclaim({ max: 10 })
  return claim
}

export function idsOf(claims: readonly Holder[]): string[] {
  return claims.map(({ callId }) => callId)
}

export function holderOf({ callId, fence }: Holder): Holder {
  return { callId, fence }
}
