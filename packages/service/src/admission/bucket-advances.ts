import { createBatch } from '../storage/batch.ts'
import type { Buckets } from './buckets/bucket.ts'

/** A bucket that calls take from. */
export interface Allowance {
  readonly key: string
  readonly capacity: number
  readonly perMs: number
}

/**
 * Tokens of shared buckets, taken in advance so that most calls ask nobody. What was taken in advance is good for half a
 * second, and then lost, so that in any span of time not more passes than the bucket holds and what flows into it in that
 * span and half a second more. Whoever is refused is refused here until there can be something again, but for no longer
 * than a second without a question, because others may give back. A bucket of another size is another matter: nothing is
 * remembered then of what there was, and was not, before.
 */
export interface Advances {
  /** Resolves with 0 when the tokens were there, else with how long to wait, of at least a millisecond. */
  take(allowance: Allowance, tokens: number): Promise<number>
  /** How long to wait, when it is known here that the tokens are not there; else 0, and nothing was taken. */
  refusal(allowance: Allowance, tokens: number): number
  /** Tokens that were taken and not used go back to their bucket, before anything else is taken from it here. */
  giveBack(allowance: Allowance, tokens: number): void
  /** How many buckets are remembered. */
  readonly size: number
}

interface Purse {
  readonly allowance: Allowance
  tokens: number
  goodUntil: number
  /** Nothing was left for `refused` tokens or more until then, and nobody is asked again before `askAt`. */
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
/** So much of what flows in, or of what the bucket holds, is taken in advance, whichever is less. */
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
  /** From what is here: 0, how long to wait, or undefined when the bucket has to be asked. */
  const fromPurse = (purse: Purse, tokens: number): number | undefined => {
    if (!hasIn(purse, tokens)) return waitOf(purse, tokens)
    purse.tokens -= tokens
    return 0
  }
  const askAnew = (allowance: Allowance): void => {
    purseOf(allowance).askAt = 0
  }
  const give = async (gifts: readonly Wish[]): Promise<void> => {
    if (gifts.length === 0) return
    const groups = groupsOf(gifts)
    // What may have arrived is not sent again, or more could be there than was taken.
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
  /** Also of one who knows the bucket by the size that it had before. */
  const served = ({ allowance, tokens }: Wish): number =>
    fromPurse(purses.get(allowance.key) ?? purseOf(allowance), tokens) ?? untilFlown(allowance, tokens)
  /** One draw for each bucket serves all who wish something of it, in order; those it does not suffice for wait. */
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

/** The bucket as the last who asked knows it: its size may just have been changed. */
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

/** What others took of a bucket just now flows in again in this time. */
function untilFlown({ perMs }: Allowance, tokens: number): number {
  return tokens / perMs
}

/** Purses with nothing in them, and nothing to remember, are the same as none. */
function forgetOld(purses: Map<string, Purse>, time: number): void {
  for (const [key, { goodUntil, askAt }] of purses) {
    if (goodUntil < time && askAt < time) purses.delete(key)
  }
}
