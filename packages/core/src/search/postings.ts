export const firstChunk = 2
const lastChunk = 1_024

/**
 * The posting lists of all terms in one array of numbers, because an object for each of many short lists costs more
 * than the list. A posting is `document << 8 | weight`. A list is a chain of chunks `[next, posting, posting, …]` whose
 * sizes double from 2 to 1,024, so that a reader knows them.
 * Lists only grow; what a removal leaves behind goes with the next compaction of the index.
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

/** The same numbers with room for half as many again. */
export function grown<T extends Float64Array | Uint32Array | Int32Array | Uint16Array | Uint8Array>(array: T): T {
  const larger = new (array.constructor as new (length: number) => T)(array.length + (array.length >> 1) + 64)
  larger.set(array)
  return larger
}
