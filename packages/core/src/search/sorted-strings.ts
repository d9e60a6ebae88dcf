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
