/** A place in an order of results: higher scores first, equal ones by key. */
export interface Place {
  readonly score: number
  readonly key: string
}

/** A document found, with the score that its order rests on. */
export type Hit = Place

/** Documents to choose from; scores and keys are by document number. */
export interface Candidates {
  readonly numbers: Uint32Array
  readonly count: number
  readonly scores: Int32Array
  readonly keys: readonly string[]
  /** `keyPrefix` of each key, which decides most ties without a look at the key. */
  readonly prefixes: Float64Array
}

const prefixLength = 7

/** The first seven characters of a key as a number that sorts as they do; characters beyond ASCII count as equal. */
export function keyPrefix(key: string): number {
  let number = 0
  for (let index = 0; index < prefixLength; index += 1) {
    number = number * 128 + (index < key.length ? Math.min(key.charCodeAt(index), 127) : 0)
  }
  return number
}

/** The best `size` candidates that come after a place, best first; a heap of that size, not a sort of all. */
function best(candidates: Candidates, after: Place | undefined, size: number): number[] {
  const { numbers, count, scores, keys, prefixes } = candidates
  const heap: number[] = []
  const worse = (a: number, b: number): boolean => {
    const byScore = (scores[a] ?? 0) - (scores[b] ?? 0)
    if (byScore !== 0) return byScore < 0
    const byPrefix = (prefixes[a] ?? 0) - (prefixes[b] ?? 0)
    return byPrefix === 0 ? (keys[a] ?? '') > (keys[b] ?? '') : byPrefix > 0
  }
  let least = 0
  for (let index = 0; index < count; index += 1) {
    const number = numbers[index] ?? 0
    const score = scores[number] ?? 0
    if (score < least || score === 0) continue
    if (after !== undefined && (score > after.score || (score === after.score && (keys[number] ?? '') <= after.key))) {
      continue
    }
    if (heap.length < size) rise(heap, number, worse)
    else if (worse(heap[0] ?? 0, number)) sink(heap, number, worse)
    if (heap.length === size) least = scores[heap[0] ?? 0] ?? 0
  }
  return heap.sort((a, b) => (worse(a, b) ? 1 : -1))
}

type Worse = (a: number, b: number) => boolean

/** Adds to a heap whose root is the worst. */
function rise(heap: number[], number: number, worse: Worse): void {
  let at = heap.push(number) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] ?? 0
    if (!worse(number, above)) break
    heap[at] = above
    at = parent
  }
  heap[at] = number
}

/** Replaces the root, which is the worst. */
function sink(heap: number[], number: number, worse: Worse): void {
  let at = 0
  for (;;) {
    let child = at * 2 + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && worse(heap[child + 1] ?? 0, heap[child] ?? 0)) child += 1
    if (!worse(heap[child] ?? 0, number)) break
    heap[at] = heap[child] ?? 0
    at = child
  }
  heap[at] = number
}

/** The best allowed candidates after a place. Takes batches of growing size, each going on where the last ended, until enough are allowed. */
export function pick(
  candidates: Candidates,
  after: Place | undefined,
  limit: number,
  allow: ((key: string) => boolean) | undefined,
): Hit[] {
  const hits: Hit[] = []
  let place = after
  for (let size = limit; hits.length < limit; size *= 4) {
    const batch = best(candidates, place, size)
    for (const number of batch) {
      place = { score: candidates.scores[number] ?? 0, key: candidates.keys[number] ?? '' }
      if (hits.length < limit && (allow === undefined || allow(place.key))) hits.push(place)
    }
    if (batch.length < size) break
  }
  return hits
}
