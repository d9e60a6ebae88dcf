import { bitCount, editDistance, letters } from './near.ts'
import { grown } from './postings.ts'

/** More terms than this are not looked through for typos, so that a search stays short whatever was registered. */
const maxScanned = 500_000

/** All terms of an index, numbered, with what finds terms that are nearly the one asked for. */
export class Dictionary {
  readonly #numbers = new Map<string, number>()
  readonly #terms: string[] = []
  readonly #sorted = new SortedStrings()
  #letters = new Int32Array(256)
  #lengths = new Uint8Array(256)
  #frequencies = new Uint32Array(256)

  get size(): number {
    return this.#terms.length
  }

  /** The number of a term, or -1. */
  find(term: string): number {
    return this.#numbers.get(term) ?? -1
  }

  term(number: number): string {
    return this.#terms[number] ?? ''
  }

  /** The number of a term, given now if it is new. */
  add(token: string): number {
    const known = this.#numbers.get(token)
    if (known !== undefined) return known
    const term = detached(token)
    const number = this.#terms.length
    if (number >= this.#letters.length) this.#grow()
    this.#terms.push(term)
    this.#numbers.set(term, number)
    this.#sorted.add(term)
    this.#letters[number] = letters(term)
    this.#lengths[number] = Math.min(term.length, 255)
    return number
  }

  /** Documents that hold the term now. */
  frequency(number: number): number {
    return this.#frequencies[number] ?? 0
  }

  count(number: number, by: 1 | -1): void {
    this.#frequencies[number] = (this.#frequencies[number] ?? 0) + by
  }

  /** Terms that begin with the token and are longer, most frequent first, out of the first `scan` in order. */
  withPrefix(token: string, limit: number, scan: number): readonly number[] {
    const found: number[] = []
    let seen = 0
    for (const term of this.#sorted.from(token)) {
      if (!term.startsWith(token) || seen === scan) break
      seen += 1
      const number = this.find(term)
      if (term !== token && this.frequency(number) > 0) found.push(number)
    }
    return found.sort((a, b) => this.#byFrequency(a, b)).slice(0, limit)
  }

  /** Terms within so many edits, nearest first; letters and lengths refuse nearly all before an edit is counted. */
  similar(token: string, edits: number, limit: number): readonly { readonly number: number; readonly edits: number }[] {
    const signature = letters(token)
    const found: { number: number; edits: number }[] = []
    const end = Math.min(this.#terms.length, maxScanned)
    for (let number = 0; number < end; number += 1) {
      const difference = (this.#lengths[number] ?? 0) - token.length
      if (difference > edits || difference < -edits) continue
      if (bitCount((this.#letters[number] ?? 0) ^ signature) > 2 * edits) continue
      if (this.frequency(number) === 0) continue
      const distance = editDistance(token, this.term(number), edits)
      if (distance <= edits) found.push({ number, edits: distance })
    }
    return found.sort((a, b) => a.edits - b.edits || this.#byFrequency(a.number, b.number)).slice(0, limit)
  }

  #byFrequency(a: number, b: number): number {
    return this.frequency(b) - this.frequency(a) || (this.term(a) < this.term(b) ? -1 : 1)
  }

  #grow(): void {
    this.#letters = grown(this.#letters)
    this.#lengths = grown(this.#lengths)
    this.#frequencies = grown(this.#frequencies)
  }
}

/** A token is often a slice that would keep its whole text alive; this copy keeps only itself. */
function detached(token: string): string {
  return token.length < 13 ? token : ` ${token}`.slice(1)
}

const fullBlock = 512

/** Up to so many new strings are put into place one by one; more are sorted together, which costs each of them less. */
const fewStrings = 32

/**
 * A sorted set of strings for ordered walks from any place.
 * It is kept in blocks of at most 512, so that an insertion moves a few hundred pointers however large the set is.
 * New strings wait until somebody walks: registering many in a row must not pay for the order of each.
 */
export class SortedStrings {
  #blocks: string[][] = []
  readonly #waiting = new Set<string>()
  /** Where the last change was; the next is often near it. */
  #recent = 0

  add(text: string): void {
    this.#waiting.add(text)
  }

  delete(text: string): void {
    this.#waiting.delete(text)
    const at = this.#block(text)
    const block = this.#blocks[at]
    if (block === undefined) return
    const position = lowerBound(block, text)
    if (block[position] !== text) return
    block.splice(position, 1)
    if (block.length === 0) this.#blocks.splice(at, 1)
  }

  /** Walks upwards from the first string that is not less than `start`; the set must not change meanwhile. */
  *from(start: string): Generator<string> {
    this.#settle()
    const at = this.#block(start)
    for (let index = at; index < this.#blocks.length; index += 1) {
      const block = this.#blocks[index] ?? []
      for (let position = index === at ? lowerBound(block, start) : 0; position < block.length; position += 1) {
        yield block[position] ?? ''
      }
    }
  }

  /** Puts the waiting strings into place. */
  #settle(): void {
    if (this.#waiting.size === 0) return
    if (this.#waiting.size <= fewStrings) for (const text of this.#waiting) this.#place(text)
    else this.#rebuild()
    this.#waiting.clear()
  }

  #rebuild(): void {
    const all = [...new Set([...this.#blocks.flat(), ...this.#waiting])].sort()
    this.#blocks = []
    for (let start = 0; start < all.length; start += fullBlock) this.#blocks.push(all.slice(start, start + fullBlock))
  }

  #place(text: string): void {
    const at = Math.min(this.#block(text), this.#blocks.length - 1)
    const block = this.#blocks[at]
    if (block === undefined) {
      this.#blocks.push([text])
      return
    }
    const position = lowerBound(block, text)
    if (block[position] === text) return
    block.splice(position, 0, text)
    if (block.length > fullBlock) this.#split(at, position === block.length - 1)
  }

  /** A block that grew at its end keeps most of itself, so that sorted input leaves full blocks behind. */
  #split(at: number, appended: boolean): void {
    const block = this.#blocks[at] ?? []
    const tail = block.splice(appended ? fullBlock : fullBlock >> 1)
    this.#blocks.splice(at + 1, 0, tail)
  }

  /** The first block whose last string is not less than the text. */
  #block(text: string): number {
    const recent = this.#blocks[this.#recent]
    if (recent !== undefined && (recent[0] ?? '') <= text && text <= (recent[recent.length - 1] ?? '')) {
      return this.#recent
    }
    let low = 0
    let high = this.#blocks.length
    while (low < high) {
      const middle = (low + high) >> 1
      const block = this.#blocks[middle] ?? []
      if ((block[block.length - 1] ?? '') < text) low = middle + 1
      else high = middle
    }
    this.#recent = low
    return low
  }
}

function lowerBound(sorted: readonly string[], text: string): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] ?? '') < text) low = middle + 1
    else high = middle
  }
  return low
}
