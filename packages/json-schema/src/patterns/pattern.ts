import { type State, spend } from '../node.ts'
import { runProgram } from './automaton.ts'
import { parseRegex, type Regex } from './parse.ts'
import { buildProgram, looksIn, type Program, sizeOf } from './program.ts'

const maxSource = 10_000
const maxStates = 5_000
/** Each lookaround reads the whole text and keeps a table of its length. */
const maxLooks = 32
/** Steps of the automaton in one match, and how many of them cost one step of the budget. */
const maxFuel = 10_000_000
const fuelPerStep = 8
/** A pattern that has no automaton must at least be safe for texts of this length. */
const leastLength = 30

/**
 * A regular expression that cannot hang: the native engine while its worst case on a text of that length is cheap, an
 * automaton for longer texts, and neither, which matches as `undefined`, for long texts and a pattern with
 * back-references. Construction throws a sentence when the pattern is malformed or cannot be bounded.
 */
export class Pattern {
  readonly #native: RegExp
  readonly #unicode: boolean
  readonly #cost: NativeCost
  readonly #regex: Regex | undefined
  #program: Program | undefined

  constructor(source: string) {
    if (source.length > maxSource) throw new Error(`is a pattern longer than ${maxSource} characters`)
    this.#native = nativeOf(source)
    this.#unicode = this.#native.unicode
    const regex = parseRegex(source, this.#unicode)
    if (looksIn(regex) > maxLooks) throw new Error(`is a pattern with more than ${maxLooks} lookarounds`)
    this.#cost = nativeCost(regex)
    const bounded = sizeOf(regex) <= maxStates
    this.#regex = bounded ? regex : undefined
    if (bounded || this.#cost.upTo >= leastLength) return
    throw new Error('is a pattern whose cost cannot be bounded: it uses back-references or repeats too many states')
  }

  /** Whether the text matches; `undefined` when the text is too long to decide. */
  matches(text: string, state: State): boolean | undefined {
    if (text.length <= this.#cost.upTo) {
      spend(state, this.#cost.charges[32 - Math.clz32(text.length)] ?? 0)
      return this.#native.test(text)
    }
    if (this.#regex === undefined) return undefined
    this.#program ??= buildProgram(this.#regex, this.#unicode)
    const fuel = Math.min(maxFuel, (state.steps + 1) * fuelPerStep)
    const { found, spent } = runProgram(this.#program, text, this.#unicode, fuel)
    spend(state, Math.ceil(spent / fuelPerStep))
    return found
  }
}

/** With the `u` flag as JSON Schema asks, without it for legacy patterns that only then are valid. */
function nativeOf(source: string): RegExp {
  try {
    return new RegExp(source, 'u')
  } catch {
    try {
      return new RegExp(source)
    } catch (cause) {
      throw new Error('is not a regular expression', { cause })
    }
  }
}

/** Backtracking steps that one native match may take: well under a millisecond. */
const maxSteps = 100_000
const maxLength = 1 << 20
/** Backtracking steps that cost one step of the budget. */
const stepsPerCharge = 64

interface Estimate {
  /** Ways to match, which is how often all that follows may be tried. */
  readonly ways: number
  readonly cost: number
  readonly minLength: number
}

/** The cost of the backtracking engine in the worst case of a pattern. */
interface NativeCost {
  /** The longest text for which it certainly stays cheap; -1 when there is none. */
  readonly upTo: number
  /** Budget steps to pay for a text, by the number of bits of its length. */
  readonly charges: readonly number[]
}

function nativeCost(regex: Regex): NativeCost {
  const anchored = isAnchored(regex)
  const stepsAt = (length: number): number => {
    const { cost } = estimate(regex, length)
    return anchored ? cost + length : cost * (length + 1)
  }
  let upTo = -1
  for (let high = maxLength; upTo < high; ) {
    const middle = Math.ceil((upTo + high) / 2)
    if (stepsAt(middle) <= maxSteps) upTo = middle
    else high = middle - 1
  }
  const charges: number[] = []
  for (let bits = 0; bits <= 32 - Math.clz32(Math.max(0, upTo)); bits++) {
    charges.push(Math.floor(stepsAt(Math.min(upTo, 2 ** bits - 1)) / stepsPerCharge))
  }
  return { upTo, charges }
}

function isAnchored(regex: Regex): boolean {
  switch (regex.kind) {
    case 'edge':
      return regex.at === 'start'
    case 'sequence':
      return regex.parts[0] !== undefined && isAnchored(regex.parts[0])
    case 'choice':
      return regex.options.every(isAnchored)
    default:
      return false
  }
}

/** An upper bound of the steps on a text of some length. */
function estimate(regex: Regex, length: number): Estimate {
  switch (regex.kind) {
    case 'set':
      return { ways: 1, cost: 1, minLength: 1 }
    case 'edge':
      return { ways: 1, cost: 1, minLength: 0 }
    case 'back':
      return { ways: 1, cost: length + 1, minLength: 0 }
    case 'look':
      return { ways: 1, cost: estimate(regex.body, length).cost, minLength: 0 }
    case 'sequence': {
      let total: Estimate = { ways: 1, cost: 0, minLength: 0 }
      for (const part of regex.parts) {
        const next = estimate(part, length)
        total = {
          ways: total.ways * next.ways,
          cost: total.cost + total.ways * next.cost,
          minLength: total.minLength + next.minLength,
        }
      }
      return total
    }
    case 'choice': {
      let total: Estimate = { ways: 0, cost: 0, minLength: Infinity }
      for (const option of regex.options) {
        const next = estimate(option, length)
        total = {
          ways: total.ways + next.ways,
          cost: total.cost + next.cost,
          minLength: Math.min(total.minLength, next.minLength),
        }
      }
      return total
    }
    case 'repeat':
      return repeated(estimate(regex.body, length), regex.min, regex.max, length)
  }
}

/** Every number of rounds is a way, and each round multiplies the ways of its body. */
function repeated(body: Estimate, min: number, max: number, length: number): Estimate {
  const rounds = Math.min(max, min + Math.floor(length / Math.max(1, body.minLength)) + 1)
  const minLength = min * body.minLength
  if (body.ways === 1) return { ways: rounds - min + 1, cost: 1 + rounds * body.cost, minLength }
  let ways = min === 0 ? 1 : 0
  let cost = 1
  let power = 1
  for (let round = 1; round <= rounds; round++) {
    cost += power * body.cost
    power *= body.ways
    if (round >= min) ways += power
    if (cost > maxSteps) return { ways: Infinity, cost: Infinity, minLength }
  }
  return { ways, cost, minLength }
}
