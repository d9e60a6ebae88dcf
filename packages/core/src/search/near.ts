import type { Issue } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

/** Limits of suggestions for a misspelled name. */
export interface NearOptions {
  /** 3 when absent. */
  readonly limit?: number
  /** Edits allowed; a third of the wanted name, at least 1 and at most 4, when absent. */
  readonly maxDistance?: number
}

const longest = 256

/**
 * The names nearest to an unknown one, best first, for suggestions in errors.
 * Case is ignored. Linear in the number of names; the signature alone excludes most of them.
 */
export function nearest(wanted: string, names: Iterable<string>, options: NearOptions = {}): string[] {
  if (wanted.length === 0 || wanted.length > longest) return []
  const limit = options.limit ?? 3
  const target = wanted.toLowerCase()
  const signature = signatureOf(target)
  let allowed = options.maxDistance ?? Math.min(4, Math.max(1, Math.floor(target.length / 3)))
  const best: { readonly name: string; readonly distance: number }[] = []
  for (const name of names) {
    if (Math.abs(name.length - target.length) > allowed) continue
    const folded = name.toLowerCase()
    if (bitCount(signatureOf(folded) ^ signature) > 2 * allowed) continue
    const distance = editDistance(target, folded, allowed)
    if (distance > allowed) continue
    best.push({ name, distance })
    best.sort(closer)
    if (best.length > limit) best.pop()
    if (best.length === limit) allowed = best[limit - 1]?.distance ?? allowed
  }
  return best.map(({ name }) => name)
}

function closer(a: { name: string; distance: number }, b: { name: string; distance: number }): number {
  return a.distance - b.distance || (a.name < b.name ? -1 : 1)
}

/** A bit for each of a to z and for a few groups of other characters; one edit changes at most two bits. */
export function signatureOf(text: string): number {
  let bits = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    if (code >= 97 && code <= 122) bits |= 1 << (code - 97)
    else if (code >= 48 && code <= 57) bits |= 1 << (26 + ((code - 48) >> 2))
    else bits |= 1 << (29 + (code & 1))
  }
  return bits
}

export function bitCount(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x55555555)
  const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return (((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24
}

/** Edits (insert, delete, replace, transpose) from one text to another; `limit + 1` as soon as there are more. */
export function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let start = 0
  let [endA, endB] = [a.length, b.length]
  while (start < endA && start < endB && a.charCodeAt(start) === b.charCodeAt(start)) start += 1
  while (endA > start && endB > start && a.charCodeAt(endA - 1) === b.charCodeAt(endB - 1)) {
    endA -= 1
    endB -= 1
  }
  if (endA === start || endB === start) return Math.min(endA + endB - 2 * start, limit + 1)
  return tableDistance(a.slice(start, endA), b.slice(start, endB), limit)
}

/** Fills the edit table row by row, only near its diagonal: cells further away exceed the limit. */
function tableDistance(a: string, b: string, limit: number): number {
  const over = limit + 1
  let before: number[] = []
  let last: number[] = Array.from({ length: b.length + 1 }, (_, index) => Math.min(index, over))
  for (let row = 1; row <= a.length; row += 1) {
    const current: number[] = new Array(b.length + 1).fill(over)
    current[0] = Math.min(row, over)
    let least = current[0]
    const end = Math.min(b.length, row + limit)
    for (let column = Math.max(1, row - limit); column <= end; column += 1) {
      const cost = a.charCodeAt(row - 1) === b.charCodeAt(column - 1) ? 0 : 1
      let edits = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + cost,
        over,
      )
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        edits = Math.min(edits, (before[column - 2] ?? 0) + 1)
      }
      current[column] = edits
      if (edits < least) least = edits
    }
    if (least > limit) return over
    before = last
    last = current
  }
  return Math.min(last[b.length] ?? over, over)
}

/** ` (did you mean "x"?)` for a word close to a known one, otherwise an empty string. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const [near] = nearest(word, known, { limit: 1 })
  return near === undefined ? '' : ` (did you mean "${near}"?)`
}

/** One issue for each unknown key, with the nearest known key as a suggestion after `message`. */
export function unknownKeys(value: object, known: readonly string[], path: string, message: string): readonly Issue[] {
  const unknown = Object.keys(value).filter((key) => !known.includes(key))
  return unknown.map((key) => ({
    path: `${path}/${escapeSegment(key.slice(0, 64))}`,
    message: `${message}${didYouMean(key, known)}`,
  }))
}
