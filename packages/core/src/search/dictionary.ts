import { bitCount, editDistance, letters } from './near.ts'
import { grown } from './postings.ts'
import { SortedStrings } from './sorted-strings.ts'

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
