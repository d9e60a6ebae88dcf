import { grown } from './postings.ts'
import { keyPrefix } from './score.ts'

/** Flags beside a document's length in its shape: ranked lower, and removed. */
export const loweredFlag = 256
export const removedFlag = 512

/**
 * The documents of an index by number. Each keeps its own terms (`term << 8 | weight`), so that a removal can be
 * counted exactly and a compaction needs no texts.
 */
export class Documents {
  readonly #numbers = new Map<string, number>()
  readonly keys: string[] = []
  prefixes = new Float64Array(256)
  /** Length in tokens (255 at most) and flags: all that scoring needs to know of a document. */
  shapes = new Uint16Array(256)
  #starts = new Uint32Array(257)
  #cells = new Uint32Array(4_096)
  /** Tokens in all live documents. */
  totalLength = 0

  /** Numbers given, removed documents included. */
  get end(): number {
    return this.keys.length
  }

  get live(): number {
    return this.#numbers.size
  }

  find(key: string): number | undefined {
    return this.#numbers.get(key)
  }

  /** Adds a document with its terms, the first `count` of `cells`. */
  add(key: string, shape: number, cells: Uint32Array, count: number): number {
    const number = this.keys.length
    if (number + 1 >= this.shapes.length) this.#grow()
    const start = this.#starts[number] ?? 0
    while (start + count > this.#cells.length) this.#cells = grown(this.#cells)
    for (let index = 0; index < count; index += 1) this.#cells[start + index] = cells[index] ?? 0
    this.#starts[number + 1] = start + count
    this.keys.push(key)
    this.prefixes[number] = keyPrefix(key)
    this.shapes[number] = shape
    this.#numbers.set(key, number)
    this.totalLength += shape & 255
    return number
  }

  /** The terms of a document; a view, valid until the next addition. */
  terms(number: number): Uint32Array {
    return this.#cells.subarray(this.#starts[number], this.#starts[number + 1])
  }

  /** Marks a document as gone; its number stays taken until the index is compacted. */
  remove(number: number): void {
    const shape = this.shapes[number] ?? 0
    this.totalLength -= shape & 255
    this.shapes[number] = shape | removedFlag
    this.#numbers.delete(this.keys[number] ?? '')
  }

  #grow(): void {
    this.shapes = grown(this.shapes)
    this.prefixes = grown(this.prefixes)
    this.#starts = grown(this.#starts)
  }
}
