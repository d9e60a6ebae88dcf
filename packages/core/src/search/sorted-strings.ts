const fullBlock = 512

/**
 * A sorted set of strings for ordered walks from any place.
 * It is kept in blocks of at most 512, so that an insertion moves a few hundred pointers however large the set is.
 */
export class SortedStrings {
  readonly #blocks: string[][] = []
  #size = 0
  /** Where the last change was; the next is often near it. */
  #recent = 0

  get size(): number {
    return this.#size
  }

  add(text: string): void {
    const at = Math.min(this.#block(text), this.#blocks.length - 1)
    const block = this.#blocks[at]
    if (block === undefined) {
      this.#blocks.push([text])
      this.#size = 1
      return
    }
    const position = lowerBound(block, text)
    if (block[position] === text) return
    block.splice(position, 0, text)
    this.#size += 1
    if (block.length > fullBlock) this.#split(at, position === block.length - 1)
  }

  delete(text: string): void {
    const at = this.#block(text)
    const block = this.#blocks[at]
    if (block === undefined) return
    const position = lowerBound(block, text)
    if (block[position] !== text) return
    block.splice(position, 1)
    this.#size -= 1
    if (block.length === 0) this.#blocks.splice(at, 1)
  }

  /** Walks upwards from the first string that is not less than `start`; the set must not change meanwhile. */
  *from(start: string): Generator<string> {
    const at = this.#block(start)
    for (let index = at; index < this.#blocks.length; index += 1) {
      const block = this.#blocks[index] ?? []
      for (let position = index === at ? lowerBound(block, start) : 0; position < block.length; position += 1) {
        yield block[position] ?? ''
      }
    }
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
