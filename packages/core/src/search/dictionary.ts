import { bitCount, editDistance, signatureOf } from './near.ts'

/** With more terms the index does not search for typos, so that a search stays fast. */
const maxScanned = 500_000

/** All terms of an index, numbered, with prefix and typo lookup. */
export class Dictionary {
  readonly #numbers = new Map<string, number>()
  readonly #terms: string[] = []
  readonly #sorted = new SortedStrings()
  #signatures = new Int32Array(256)
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

  /** The number of a term, assigned if it is new. */
  add(token: string): number {
    const known = this.#numbers.get(token)
    if (known !== undefined) return known
    const term = detached(token)
    const number = this.#terms.length
    if (number >= this.#signatures.length) this.#grow()
    this.#terms.push(term)
    this.#numbers.set(term, number)
    this.#sorted.add(term)
    this.#signatures[number] = signatureOf(term)
    this.#lengths[number] = Math.min(term.length, 255)
    return number
  }

  /** How many live documents hold the term. */
  frequency(number: number): number {
    return this.#frequencies[number] ?? 0
  }

  count(number: number, by: 1 | -1): void {
    this.#frequencies[number] = (this.#frequencies[number] ?? 0) + by
  }

  /** Longer terms with the token as prefix, most frequent first, among the first `scan` in order. */
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

  /** Terms within `edits` edits, nearest first; signature and length exclude nearly all before edits are counted. */
  similar(token: string, edits: number, limit: number): readonly { readonly number: number; readonly edits: number }[] {
    const signature = signatureOf(token)
    const found: { number: number; edits: number }[] = []
    const end = Math.min(this.#terms.length, maxScanned)
    for (let number = 0; number < end; number += 1) {
      const difference = (this.#lengths[number] ?? 0) - token.length
      if (difference > edits || difference < -edits) continue
      if (bitCount((this.#signatures[number] ?? 0) ^ signature) > 2 * edits) continue
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
    this.#signatures = grown(this.#signatures)
    this.#lengths = grown(this.#lengths)
    this.#frequencies = grown(this.#frequencies)
  }
}

/** Copies a token, because a slice would keep its whole source text in memory. */
function detached(token: string): string {
  return token.length < 13 ? token : ` ${token}`.slice(1)
}

const fullBlock = 512

/** Up to this many new strings are inserted one by one; more are sorted and merged, which costs less per string. */
const fewStrings = 32

/**
 * A sorted set of strings with iteration from any start.
 * Blocks of at most 512 keep an insertion to a few hundred moved pointers for any size of the set.
 * New strings are sorted in by the next iteration, so that many insertions in a row cost one sort.
 */
export class SortedStrings {
  #blocks: string[][] = []
  readonly #waiting = new Set<string>()
  /** The block of the last change; the next change is often near it. */
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

  /** Iterates upwards from the first string that is not less than `start`; the set must not change meanwhile. */
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

  /** Sorts the pending strings in. */
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

  /** A block that grew at its end keeps most of its strings, so that sorted input leaves full blocks. */
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

export const firstChunk = 2
const lastChunk = 1_024

/**
 * The posting lists of all terms in one array of numbers, because an object per short list costs more than the list.
 * A posting is `document << 8 | weight`. A list is a chain of chunks `[next, posting, posting, …]` whose sizes double
 * from 2 to 1,024, so that a reader needs no stored sizes.
 * Lists only grow; the next compaction of the index drops the postings of removed documents.
 */
export class Postings {
  cells = new Uint32Array(1_024)
  #used = 0
  #heads = new Uint32Array(256)
  #counts = new Uint32Array(256)
  #writes = new Uint32Array(256)
  #rooms = new Uint32Array(256)
  #sizes = new Uint16Array(256)

  count(term: number): number {
    return this.#counts[term] ?? 0
  }

  head(term: number): number {
    return this.#heads[term] ?? 0
  }

  append(term: number, posting: number): void {
    if (term >= this.#heads.length) this.#growTerms()
    if ((this.#rooms[term] ?? 0) === 0) this.#openChunk(term)
    const write = this.#writes[term] ?? 0
    this.cells[write] = posting
    this.#writes[term] = write + 1
    this.#rooms[term] = (this.#rooms[term] ?? 0) - 1
    this.#counts[term] = (this.#counts[term] ?? 0) + 1
  }

  #openChunk(term: number): void {
    const size = nextChunk(this.#sizes[term] ?? 0)
    while (this.#used + size + 1 > this.cells.length) this.cells = grown(this.cells)
    const chunk = this.#used
    this.#used += size + 1
    if ((this.#counts[term] ?? 0) === 0) this.#heads[term] = chunk
    else this.cells[(this.#writes[term] ?? 0) - (this.#sizes[term] ?? 0) - 1] = chunk
    this.#writes[term] = chunk + 1
    this.#rooms[term] = size
    this.#sizes[term] = size
  }

  #growTerms(): void {
    this.#heads = grown(this.#heads)
    this.#counts = grown(this.#counts)
    this.#writes = grown(this.#writes)
    this.#rooms = grown(this.#rooms)
    this.#sizes = grown(this.#sizes)
  }
}

/** The size of the chunk after one of this size. */
export function nextChunk(size: number): number {
  return size === 0 ? firstChunk : Math.min(size * 2, lastChunk)
}

/** A copy with half as much capacity again. */
export function grown<T extends Float64Array | Uint32Array | Int32Array | Uint16Array | Uint8Array>(array: T): T {
  const larger = new (array.constructor as new (length: number) => T)(array.length + (array.length >> 1) + 64)
  larger.set(array)
  return larger
}
