import type { Regex } from './parse.ts'

/** One character of a pattern; the engine's own answer for each code point, remembered for ASCII. */
class CharacterSet {
  readonly #code: number | undefined
  readonly #native: RegExp
  readonly #unicode: boolean
  /** 0 is unknown, 1 is no, 2 is yes. */
  readonly #ascii = new Uint8Array(128)

  constructor(source: string, code: number | undefined, unicode: boolean) {
    this.#code = code
    this.#unicode = unicode
    this.#native = code === undefined ? new RegExp(`^${source}$`, unicode ? 'u' : '') : /^/
  }

  has(code: number): boolean {
    if (this.#code !== undefined) return this.#code === code
    if (code >= 128) return this.#ask(code)
    if (this.#ascii[code] === 0) this.#ascii[code] = this.#ask(code) ? 2 : 1
    return this.#ascii[code] === 2
  }

  #ask(code: number): boolean {
    return this.#native.test(this.#unicode ? String.fromCodePoint(code) : String.fromCharCode(code))
  }
}

/** The kind of a step; numbers, because the automaton compares them for every character. */
export const op = { set: 0, match: 1, fork: 2, look: 3, lookNot: 4, start: 5, end: 6, word: 7, inner: 8 } as const

/** One step of an automaton, of one shape for all kinds: `fork` goes to `first` and `second`, `look` asks table `first`. */
export interface Step {
  readonly op: number
  first: number
  second: number
  readonly set: CharacterSet
}

/** A lookaround's own automaton; one that looks ahead runs backwards, so that it marks where a match begins. */
interface Look {
  readonly steps: readonly Step[]
  readonly backward: boolean
}

export interface Program {
  readonly steps: readonly Step[]
  /** Inner lookarounds come before those that hold them. */
  readonly looks: readonly Look[]
}

/** States the automaton of a pattern would have, with bounded repeats written out. */
export function sizeOf(regex: Regex): number {
  switch (regex.kind) {
    case 'sequence':
      return regex.parts.reduce((size, part) => size + sizeOf(part), 0)
    case 'choice':
      return regex.options.reduce((size, option) => size + sizeOf(option) + 2, 0)
    case 'repeat': {
      const copies = regex.max === Infinity ? regex.min + 1 : regex.max
      return copies * (sizeOf(regex.body) + 1) + 1
    }
    case 'look':
      return sizeOf(regex.body) + 2
    case 'back':
      return Infinity
    default:
      return 1
  }
}

/** Lookarounds as written; copies of a repeated one share a table. */
export function looksIn(regex: Regex): number {
  switch (regex.kind) {
    case 'sequence':
      return regex.parts.reduce((count, part) => count + looksIn(part), 0)
    case 'choice':
      return regex.options.reduce((count, option) => count + looksIn(option), 0)
    case 'repeat':
      return looksIn(regex.body)
    case 'look':
      return looksIn(regex.body) + 1
    default:
      return 0
  }
}

/** Builds Thompson's automaton. */
export function buildProgram(regex: Regex, unicode: boolean): Program {
  const sets = new Map<string, CharacterSet>()
  const looks: Look[] = []
  const lookIndexes = new Map<Regex, number>()
  const setOf = (source: string, code: number | undefined): CharacterSet => {
    const known = sets.get(source) ?? new CharacterSet(source, code, unicode)
    sets.set(source, known)
    return known
  }
  const whole = (part: Regex, backward: boolean): Step[] => {
    const steps: Step[] = []
    emit(part, backward, steps)
    steps.push(step(op.match))
    return steps
  }
  const emit = (part: Regex, backward: boolean, steps: Step[]): void => {
    switch (part.kind) {
      case 'set':
        steps.push(step(op.set, 0, setOf(part.source, part.code)))
        return
      case 'edge':
        steps.push(step(op[part.at]))
        return
      case 'look':
        steps.push(step(part.negated ? op.lookNot : op.look, lookIndex(part)))
        return
      case 'sequence':
        for (const next of backward ? part.parts.toReversed() : part.parts) emit(next, backward, steps)
        return
      case 'choice':
        emitChoice(part.options, backward, steps)
        return
      case 'repeat':
        for (let copy = 0; copy < part.min; copy++) emit(part.body, backward, steps)
        if (part.max === Infinity) emitLoop(part.body, backward, steps)
        else emitOptional(part.body, part.max - part.min, backward, steps)
        return
      case 'back':
        throw new Error('a back-reference has no automaton')
    }
  }
  const lookIndex = (look: Extract<Regex, { kind: 'look' }>): number => {
    const known = lookIndexes.get(look)
    if (known !== undefined) return known
    const steps = whole(look.body, look.ahead)
    const index = looks.push({ steps, backward: look.ahead }) - 1
    lookIndexes.set(look, index)
    return index
  }
  const emitChoice = (options: readonly Regex[], backward: boolean, steps: Step[]): void => {
    const exits: Step[] = []
    for (const [index, option] of options.entries()) {
      const fork = index < options.length - 1 ? pushFork(steps) : undefined
      emit(option, backward, steps)
      exits.push(pushFork(steps))
      if (fork !== undefined) fork.second = steps.length
    }
    for (const exit of exits) exit.first = exit.second = steps.length
  }
  const emitLoop = (body: Regex, backward: boolean, steps: Step[]): void => {
    const start = steps.length
    const fork = pushFork(steps)
    emit(body, backward, steps)
    const again = pushFork(steps)
    again.first = again.second = start
    fork.second = steps.length
  }
  const emitOptional = (body: Regex, copies: number, backward: boolean, steps: Step[]): void => {
    const forks: Step[] = []
    for (let copy = 0; copy < copies; copy++) {
      forks.push(pushFork(steps))
      emit(body, backward, steps)
    }
    for (const fork of forks) fork.second = steps.length
  }
  return { steps: whole(regex, false), looks }
}

const noSet = new CharacterSet('', -1, true)

function step(kind: number, first = 0, set: CharacterSet = noSet): Step {
  return { op: kind, first, second: 0, set }
}

/** A fork whose first way is the next step; its second way is set later. */
function pushFork(steps: Step[]): Step {
  const fork = step(op.fork, steps.length + 1)
  fork.second = fork.first
  steps.push(fork)
  return fork
}
