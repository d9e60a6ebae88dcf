import { Dictionary, grown, Postings } from './dictionary.ts'
import {
  type Document,
  Documents,
  loweredFlag,
  maxDocumentTokens,
  moreWeight,
  readDocument,
  removedFlag,
} from './document.ts'
import { makePlan, type Plan } from './plan.ts'
import { type Candidates, type Corpus, type Hit, pick, type RankPosition, Scratch, scoreAll } from './score.ts'

/** The index is compacted when at least this many documents are removed and they are a quarter of all. */
const leastSwept = 1_024

/**
 * An inverted index with BM25 scores over weighted fields, kept up to date document by document.
 * Everything is in memory and synchronous. Adding a key again replaces its document.
 */
export class TextIndex {
  #dictionary = new Dictionary()
  #postings = new Postings()
  #documents = new Documents()
  /** Weights of the document being read, by term; zero between uses. */
  #weights = new Uint32Array(1_024)
  /** Terms of the document being read; shared, because one small array per document is slow to allocate. */
  readonly #cells = new Uint32Array(maxDocumentTokens)
  #scratch: Scratch | undefined = new Scratch()

  get size(): number {
    return this.#documents.live
  }

  add(document: Document): void {
    this.remove(document.key)
    let count = 0
    const length = readDocument(document, (token, boost) => {
      const term = this.#dictionary.add(token)
      while (term >= this.#weights.length) this.#weights = grown(this.#weights)
      const before = this.#weights[term] ?? 0
      if (before === 0) this.#cells[count++] = term
      this.#weights[term] = moreWeight(before, boost)
    })
    for (let index = 0; index < count; index += 1) {
      const term = this.#cells[index] ?? 0
      this.#cells[index] = (term << 8) | (this.#weights[term] ?? 0)
      this.#weights[term] = 0
    }
    this.#insert(document.key, document.lowered ? length | loweredFlag : length, this.#cells, count)
  }

  remove(key: string): boolean {
    const number = this.#documents.find(key)
    if (number === undefined) return false
    for (const cell of this.#documents.terms(number)) this.#dictionary.count(cell >>> 8, -1)
    this.#documents.remove(number)
    const gone = this.#documents.end - this.#documents.live
    if (gone >= leastSwept && gone * 4 >= this.#documents.end) this.#sweep()
    return true
  }

  plan(query: string): Plan {
    return makePlan(query, this.#dictionary, this.#documents.live, this.#documents.totalLength)
  }

  /**
   * The hits of a plan after a position, best first, at most `limit`. `allow` is called in rank order until enough hits
   * are allowed.
   */
  search(plan: Plan, after: RankPosition | undefined, limit: number, allow?: (key: string) => boolean): Hit[] {
    return this.#scored(plan, (candidates) => pick(candidates, after, limit, allow))
  }

  /** The score of every document that holds a term of the plan. */
  scores(plan: Plan): Map<string, number> {
    return this.#scored(plan, ({ numbers, count, scores, keys }) => {
      const all = new Map<string, number>()
      for (let index = 0; index < count; index += 1) {
        const number = numbers[index] ?? 0
        all.set(keys[number] ?? '', scores[number] ?? 0)
      }
      return all
    })
  }

  /** A search started inside the `allow` of another search gets its own buffers. */
  #scored<T>(plan: Plan, use: (candidates: Candidates) => T): T {
    const scratch = this.#scratch ?? new Scratch()
    this.#scratch = undefined
    const candidates = scoreAll(plan, this.#corpus(), scratch)
    try {
      return use(candidates)
    } finally {
      scratch.clear(candidates)
      this.#scratch = scratch
    }
  }

  #corpus(): Corpus {
    return { dictionary: this.#dictionary, postings: this.#postings, documents: this.#documents }
  }

  #insert(key: string, shape: number, cells: Uint32Array, count: number): void {
    const number = this.#documents.add(key, shape, cells, count)
    for (let index = 0; index < count; index += 1) {
      const cell = cells[index] ?? 0
      this.#dictionary.count(cell >>> 8, 1)
      this.#postings.append(cell >>> 8, (number << 8) | (cell & 255))
    }
  }

  /** Rebuilds the index from the terms of the live documents; a running search keeps the old data. */
  #sweep(): void {
    const documents = this.#documents
    const dictionary = this.#dictionary
    const renumbered = new Int32Array(dictionary.size).fill(-1)
    this.#documents = new Documents()
    this.#dictionary = new Dictionary()
    this.#postings = new Postings()
    for (let number = 0; number < documents.end; number += 1) {
      const shape = documents.shapes[number] ?? removedFlag
      if (shape >= removedFlag) continue
      const cells = documents.terms(number)
      cells.forEach((cell, index) => {
        const term = cell >>> 8
        if (renumbered[term] === -1) renumbered[term] = this.#dictionary.add(dictionary.term(term))
        cells[index] = ((renumbered[term] ?? 0) << 8) | (cell & 255)
      })
      this.#insert(documents.keys[number] ?? '', shape, cells, cells.length)
    }
  }
}
