import type { Buckets } from '../buckets/bucket.ts'
import { createBatch } from '../stores/batch.ts'

/** A bucket that calls take from. */
export interface Allowance {
  readonly key: string
  readonly capacity: number
  readonly perMs: number
}

/**
 * Tokens of shared buckets, taken in advance so that most calls ask nobody. What was taken is good for half a second, and
 * then lost, so that in any span of time not more passes than the bucket holds and what flows into it in that span and
 * half a second more; what is given back is good for as long once more. Whoever is refused is refused here until there
 * can be something again.
 */
export interface Advances {
  /** Resolves with 0 when the tokens were there, else with how long to wait, of at least a millisecond. */
  take(allowance: Allowance, tokens: number): Promise<number>
  /** Tokens that were taken and not used; they are there for the next, as if they had just been taken in advance. */
  giveBack(allowance: Allowance, tokens: number): void
  /** How many buckets are remembered. */
  readonly size: number
}

interface Purse {
  tokens: number
  goodUntil: number
  /** Nothing was left for `refused` tokens or more until then. */
  emptyUntil: number
  refused: number
}

interface Wish {
  readonly allowance: Allowance
  readonly tokens: number
}

const goodMs = 500
/** So much of what flows in, or of what the bucket holds, is taken in advance, whichever is less. */
const aheadMs = 100
const aheadPart = 0.1
const mostPurses = 10_000

export function createAdvances(buckets: Pick<Buckets, 'draw'>, now: () => number = () => performance.now()): Advances {
  const purses = new Map<string, Purse>()
  const purseOf = (key: string): Purse => {
    const purse = purses.get(key) ?? { tokens: 0, goodUntil: 0, emptyUntil: 0, refused: 0 }
    if (!purses.has(key) && purses.size >= mostPurses) forgetOld(purses, now())
    purses.set(key, purse)
    return purse
  }
  /** From what is here: 0, how long to wait, or undefined when the bucket has to be asked. */
  const fromPurse = ({ allowance, tokens }: Wish): number | undefined => {
    const purse = purseOf(allowance.key)
    const time = now()
    if (purse.tokens >= tokens && time < purse.goodUntil) {
      purse.tokens -= tokens
      return 0
    }
    return tokens >= purse.refused && time < purse.emptyUntil ? purse.emptyUntil - time : undefined
  }
  /** One draw for each bucket serves all who wish something of it, in order; those it does not suffice for wait. */
  const drawing = createBatch<Wish, number>(async (wishes) => {
    const groups = [...Map.groupBy(wishes, ({ allowance }) => allowance.key).values()]
    const drawn = await buckets.draw(groups.map(drawOf))
    groups.forEach((group, n) => {
      const purse = purseOf(group[0]?.allowance.key ?? '')
      const { tokens = 0, waitMs = 0 } = drawn[n] ?? {}
      const before = now() < purse.goodUntil ? purse.tokens : 0
      purse.tokens = before + tokens
      if (tokens > 0) purse.goodUntil = now() + goodMs
      if (tokens > 0) return
      purse.refused = Math.min(...group.map((wish) => wish.tokens))
      purse.emptyUntil = now() + Math.max(1, waitMs)
    })
    return wishes.map((wish) => fromPurse(wish) ?? untilFlown(wish))
  })
  return {
    take: async (allowance, tokens) => {
      const wish = { allowance, tokens }
      const waitMs = fromPurse(wish) ?? (await drawing.add(wish))
      return waitMs === 0 ? 0 : Math.max(1, waitMs)
    },
    giveBack(allowance, tokens) {
      const purse = purseOf(allowance.key)
      const time = now()
      const before = time < purse.goodUntil ? purse.tokens : 0
      purse.tokens = before + tokens
      // They are good again for as long, or a call that took longer to be refused would have paid.
      if (before === 0) purse.goodUntil = time + goodMs
    },
    get size() {
      return purses.size
    },
  }
}

function drawOf(group: readonly Wish[]) {
  const { allowance } = group[0] as Wish
  const all = group.reduce((sum, { tokens }) => sum + tokens, 0)
  const ahead = Math.floor(Math.min(allowance.capacity * aheadPart, allowance.perMs * aheadMs))
  return { ...allowance, least: Math.min(...group.map(({ tokens }) => tokens)), most: all + ahead }
}

/** What others took of a bucket just now flows in again in this time. */
function untilFlown({ allowance, tokens }: Wish): number {
  return tokens / allowance.perMs
}

/** Purses with nothing in them, and nothing to remember, are the same as none. */
function forgetOld(purses: Map<string, Purse>, time: number): void {
  for (const [key, { goodUntil, emptyUntil }] of purses) {
    if (goodUntil < time && emptyUntil < time) purses.delete(key)
  }
}
