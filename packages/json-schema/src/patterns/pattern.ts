import { type State, spend } from '../node.ts'
import { runProgram } from './automaton.ts'
import { type NativeCost, nativeCost } from './cost.ts'
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

  /** Whether the text matches; `undefined` when it is too long to tell. */
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
