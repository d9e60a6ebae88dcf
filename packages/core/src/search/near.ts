/** What a name must share with the wanted one to be suggested, and how many are. */
export interface NearOptions {
  /** 3 when absent. */
  readonly limit?: number
  /** Edits allowed; a third of the wanted name, at least 1 and at most 4, when absent. */
  readonly maxDistance?: number
}

const longest = 256

/**
 * The names nearest to one that does not exist, best first, for a message that helps.
 * Case is ignored. Linear in the number of names, with most of them refused by their letters alone.
 */
export function nearest(wanted: string, names: Iterable<string>, options: NearOptions = {}): string[] {
  if (wanted.length === 0 || wanted.length > longest) return []
  const limit = options.limit ?? 3
  const target = wanted.toLowerCase()
  const signature = letters(target)
  let allowed = options.maxDistance ?? Math.min(4, Math.max(1, Math.floor(target.length / 3)))
  const best: { readonly name: string; readonly distance: number }[] = []
  for (const name of names) {
    if (Math.abs(name.length - target.length) > allowed) continue
    const folded = name.toLowerCase()
    if (bitCount(letters(folded) ^ signature) > 2 * allowed) continue
    const distance = editDistance(target, folded, allowed)
    if (distance > allowed) continue
    best.push({ name, distance })
    if (best.length < limit * 4) continue
    best.sort(closer)
    best.length = limit
    allowed = best[limit - 1]?.distance ?? allowed
  }
  return best
    .sort(closer)
    .slice(0, limit)
    .map(({ name }) => name)
}

function closer(a: { name: string; distance: number }, b: { name: string; distance: number }): number {
  return a.distance - b.distance || (a.name < b.name ? -1 : 1)
}

/** A bit for each letter and for a few groups of other characters; one edit changes at most two bits. */
export function letters(text: string): number {
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

/** Edits (insert, delete, replace, swap of neighbours) from one text to another; `limit + 1` as soon as it is more. */
export function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let before: number[] = []
  let last: number[] = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row += 1) {
    const current: number[] = [row]
    let least = row
    for (let column = 1; column <= b.length; column += 1) {
      const cost = a[row - 1] === b[column - 1] ? 0 : 1
      let edits = Math.min((last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1, (last[column - 1] ?? 0) + cost)
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        edits = Math.min(edits, (before[column - 2] ?? 0) + 1)
      }
      current.push(edits)
      if (edits < least) least = edits
    }
    if (least > limit) return limit + 1
    before = last
    last = current
  }
  return Math.min(last[b.length] ?? 0, limit + 1)
}
