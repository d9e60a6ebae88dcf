import { createBatch } from '../storage/batch.ts'
import type { Buckets } from './buckets/bucket.ts'

/** A bucket that calls take from. */
export interface Allowance {
  readonly key: string
  readonly capacity: number
  readonly perMs: number
}

/**
 * Tokens of shared buckets, taken in advance so that most calls need no request to the store. An advance expires after
 * half a second, so that in any span of time the calls that pass take at most the capacity of the bucket and its refill
 * in that span plus half a second. A refusal is repeated here until the bucket can have refilled, but for at most a
 * second without a request, because other processes may give tokens back. When the capacity or rate of a bucket
 * changes, its advance and its refusals are discarded.
 */
export interface Advances {
  /** Resolves with 0 when the tokens were taken, else with the time to wait, of at least a millisecond. */
  take(allowance: Allowance, tokens: number): Promise<number>
  /** The time to wait when an earlier refusal still applies; else 0. Takes nothing. */
  refusal(allowance: Allowance, tokens: number): number
  /** Returns unused tokens to their bucket, before this process takes anything else from it. */
  giveBack(allowance: Allowance, tokens: number): void
  /** The number of buckets that are remembered. */
  readonly size: number
}

interface Purse {
  readonly allowance: Allowance
  tokens: number
  goodUntil: number
  /** A take of `refused` tokens or more fails until then; the store is not queried again before `askAt`. */
  emptyUntil: number
  askAt: number
  refused: number
}

interface Wish {
  readonly kind: 'take' | 'give'
  readonly allowance: Allowance
  readonly tokens: number
}

const goodMs = 500
const askAgainMs = 1_000
/** An advance is the refill of this time, or this part of the capacity, whichever is less. */
const aheadMs = 100
const aheadPart = 0.1
const mostPurses = 10_000

export function createAdvances(
  buckets: Pick<Buckets, 'draw' | 'give'>,
  now: () => number = () => performance.now(),
): Advances {
  const purses = new Map<string, Purse>()
  const purseOf = (allowance: Allowance): Purse => {
    const found = purses.get(allowance.key)
    if (found !== undefined && isSame(found.allowance, allowance)) return found
    if (found === undefined && purses.size >= mostPurses) forgetOld(purses, now())
    const purse = { allowance, tokens: 0, goodUntil: 0, emptyUntil: 0, askAt: 0, refused: 0 }
    purses.set(allowance.key, purse)
    return purse
  }
  const waitOf = (purse: Purse, tokens: number): number | undefined => {
    const time = now()
    return tokens >= purse.refused && time < purse.askAt ? Math.max(1, purse.emptyUntil - time) : undefined
  }
  const hasIn = (purse: Purse, tokens: number): boolean => purse.tokens >= tokens && now() < purse.goodUntil
  /** Serves from the purse: 0, the time to wait, or undefined when the bucket has to be queried. */
  const fromPurse = (purse: Purse, tokens: number): number | undefined => {
    if (!hasIn(purse, tokens)) return waitOf(purse, tokens)
    purse.tokens -= tokens
    return 0
  }
  const askAnew = (allowance: Allowance): void => {
    purseOf(allowance).askAt = 0
  }
  const give = async (refunds: readonly Wish[]): Promise<void> => {
    if (refunds.length === 0) return
    const groups = groupsOf(refunds)
    // A failed return may have arrived, so it is not repeated: the bucket could get more than was taken.
    await buckets.give(groups.map((group) => ({ ...newest(group), tokens: sumOf(group) }))).catch(() => undefined)
    for (const group of groups) askAnew(newest(group))
  }
  const draw = async (wishes: readonly Wish[]): Promise<void> => {
    if (wishes.length === 0) return
    const groups = groupsOf(wishes)
    const drawn = await buckets.draw(groups.map(drawOf))
    groups.forEach((group, n) => {
      const purse = purseOf(newest(group))
      const { tokens = 0, waitMs = 0 } = drawn[n] ?? {}
      const time = now()
      purse.tokens = (time < purse.goodUntil ? purse.tokens : 0) + tokens
      if (tokens > 0) purse.goodUntil = time + goodMs
      if (tokens > 0) return
      purse.refused = Math.min(...group.map((wish) => wish.tokens))
      purse.emptyUntil = time + Math.max(1, waitMs)
      purse.askAt = Math.min(purse.emptyUntil, time + askAgainMs)
    })
  }
  /** Also serves tokens that were taken under an earlier size of the bucket. */
  const served = ({ allowance, tokens }: Wish): number =>
    fromPurse(purses.get(allowance.key) ?? purseOf(allowance), tokens) ?? untilFlown(allowance, tokens)
  /** One draw for each bucket serves all its takes, in order; those it does not suffice for get a time to wait. */
  const asking = createBatch<Wish, number>(async (wishes) => {
    await give(wishes.filter(({ kind }) => kind === 'give'))
    await draw(wishes.filter(({ kind }) => kind === 'take'))
    return wishes.map((wish) => (wish.kind === 'give' ? 0 : served(wish)))
  })
  return {
    take: async (allowance, tokens) => {
      const waitMs = fromPurse(purseOf(allowance), tokens) ?? (await asking.add({ kind: 'take', allowance, tokens }))
      return waitMs === 0 ? 0 : Math.max(1, waitMs)
    },
    refusal(allowance, tokens) {
      const purse = purseOf(allowance)
      return hasIn(purse, tokens) ? 0 : (waitOf(purse, tokens) ?? 0)
    },
    giveBack(allowance, tokens) {
      askAnew(allowance)
      asking.add({ kind: 'give', allowance, tokens }).catch(() => undefined)
    },
    get size() {
      return purses.size
    },
  }
}

function isSame(a: Allowance, b: Allowance): boolean {
  return a === b || (a.capacity === b.capacity && a.perMs === b.perMs)
}

function groupsOf(wishes: readonly Wish[]): readonly (readonly Wish[])[] {
  return [...Map.groupBy(wishes, ({ allowance }) => allowance.key).values()]
}

/** The bucket as the latest take describes it: its size may just have changed. */
function newest(group: readonly Wish[]): Allowance {
  return (group.at(-1) as Wish).allowance
}

function sumOf(group: readonly Wish[]): number {
  return group.reduce((sum, { tokens }) => sum + tokens, 0)
}

function drawOf(group: readonly Wish[]) {
  const { key, capacity, perMs } = newest(group)
  const ahead = Math.floor(Math.min(capacity * aheadPart, perMs * aheadMs))
  const least = Math.min(...group.map(({ tokens }) => tokens))
  return { key, capacity, perMs, least, most: sumOf(group) + ahead }
}

/** The time in which the bucket refills tokens that other processes just took. */
function untilFlown({ perMs }: Allowance, tokens: number): number {
  return tokens / perMs
}

/** Removes purses without a valid advance or refusal; they are the same as none. */
function forgetOld(purses: Map<string, Purse>, time: number): void {
  for (const [key, { goodUntil, askAt }] of purses) {
    if (goodUntil < time && askAt < time) purses.delete(key)
  }
}
