import { op, type Program, type Step } from './program.ts'

/** The outcome of a match and what it cost; `undefined` when the fuel did not suffice. */
export interface Match {
  readonly found: boolean | undefined
  readonly spent: number
}

/**
 * Whether a program matches anywhere in a text, in time proportional to its states times the length. Every lookaround
 * visits every position, so that too many for the fuel are refused before their tables, one byte for each visit, exist.
 */
export function runProgram(program: Program, text: string, unicode: boolean, fuel: number): Match {
  if (program.looks.length * (text.length + 1) > fuel) return { found: undefined, spent: fuel + 1 }
  const run = new Run(unicode ? codePointsOf(text) : codeUnitsOf(text), fuel)
  for (const look of program.looks) run.mark(look.steps, look.backward)
  const found = run.search(program.steps)
  return { found: run.fuel < 0 ? undefined : found, spent: fuel - run.fuel }
}

function codePointsOf(text: string): Int32Array {
  const codes = new Int32Array(text.length)
  let count = 0
  for (let index = 0; index < text.length; count++) {
    const code = text.codePointAt(index) ?? 0
    codes[count] = code
    index += code > 0xffff ? 2 : 1
  }
  return codes.subarray(0, count)
}

function codeUnitsOf(text: string): Int32Array {
  const codes = new Int32Array(text.length)
  for (let index = 0; index < text.length; index++) codes[index] = text.charCodeAt(index)
  return codes
}

/** Follows all ways through an automaton at once, so that no text is read twice. */
class Run {
  readonly #codes: Int32Array
  /** For each lookaround, the positions at which its body matches. */
  readonly #tables: Uint8Array[] = []
  fuel: number

  constructor(codes: Int32Array, fuel: number) {
    this.#codes = codes
    this.fuel = fuel
  }

  search(steps: readonly Step[]): boolean {
    return this.#walk(steps, false, undefined)
  }

  /** Marks every position that a lookaround's body reaches. */
  mark(steps: readonly Step[], backward: boolean): void {
    const table = new Uint8Array(this.#codes.length + 1)
    this.#walk(steps, backward, table)
    this.#tables.push(table)
  }

  /** With a table, marks each match in it; without, stops at the first. */
  #walk(steps: readonly Step[], backward: boolean, table: Uint8Array | undefined): boolean {
    const { length } = this.#codes
    const threads = new Threads(steps.length)
    let found = false
    for (let moved = 0; moved <= length && this.fuel >= 0; moved++) {
      const position = backward ? length - moved : moved
      if (this.#close(steps, threads, position)) {
        if (table === undefined) return true
        table[position] = 1
        found = true
      }
      if (moved < length) this.#advance(steps, threads, this.#codes[backward ? position - 1 : position] ?? 0)
    }
    return found
  }

  /** Adds the start and follows every step that reads nothing; true when the match is reached. */
  #close(steps: readonly Step[], threads: Threads, position: number): boolean {
    let matched = false
    threads.begin()
    for (let step = threads.next(); step >= 0; step = threads.next()) {
      this.fuel--
      const current = steps[step]
      if (current === undefined) continue
      if (current.op === op.set) threads.keep(step)
      else if (current.op === op.match) matched = true
      else if (current.op === op.fork) {
        threads.add(current.second)
        threads.add(current.first)
      } else if (this.#holds(current, position)) threads.add(step + 1)
    }
    return matched
  }

  #advance(steps: readonly Step[], threads: Threads, code: number): void {
    for (let index = 0; index < threads.kept; index++) {
      this.fuel--
      const step = threads.list[index] ?? 0
      if (steps[step]?.set.has(code)) threads.carry(step + 1)
    }
  }

  /** Whether an assertion between two characters holds. */
  #holds(step: Step, position: number): boolean {
    switch (step.op) {
      case op.start:
        return position === 0
      case op.end:
        return position === this.#codes.length
      case op.word:
        return this.#isWord(position - 1) !== this.#isWord(position)
      case op.inner:
        return this.#isWord(position - 1) === this.#isWord(position)
      default:
        return (this.#tables[step.first]?.[position] === 1) === (step.op === op.look)
    }
  }

  #isWord(position: number): boolean {
    const code = this.#codes[position] ?? 0
    return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122)
  }
}

/** The steps alive at one position; each is visited once, by a mark that changes with the position. */
class Threads {
  readonly list: Int32Array
  kept = 0
  readonly #stack: Int32Array
  #waiting = 0
  readonly #carried: Int32Array
  #carriedCount = 0
  readonly #marks: Int32Array
  #mark = 0

  constructor(size: number) {
    this.list = new Int32Array(size)
    this.#stack = new Int32Array(size)
    this.#carried = new Int32Array(size)
    this.#marks = new Int32Array(size)
  }

  /** Starts a position with the steps carried over from the last and the first step. */
  begin(): void {
    this.#mark++
    this.kept = 0
    this.add(0)
    for (let index = 0; index < this.#carriedCount; index++) this.add(this.#carried[index] ?? 0)
    this.#carriedCount = 0
  }

  add(step: number): void {
    if (this.#marks[step] === this.#mark) return
    this.#marks[step] = this.#mark
    this.#stack[this.#waiting++] = step
  }

  next(): number {
    return this.#waiting === 0 ? -1 : (this.#stack[--this.#waiting] ?? 0)
  }

  keep(step: number): void {
    this.list[this.kept++] = step
  }

  carry(step: number): void {
    this.#carried[this.#carriedCount++] = step
  }
}
