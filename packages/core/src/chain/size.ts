import { utf8Length } from '../json/limits.ts'

/** Bytes of a value as JSON, near enough; stops counting once it is over `most`, so that a huge value costs no more. */
export function sizeOf(value: unknown, most: number): number {
  const open: unknown[] = [value]
  let bytes = 0
  while (open.length > 0 && bytes <= most) {
    const next = open.pop()
    if (typeof next === 'string') bytes += utf8Length(next) + 2
    else if (typeof next === 'number') bytes += 8
    else if (typeof next !== 'object' || next === null) bytes += 4
    else if (Array.isArray(next)) {
      bytes += 2
      // Every element takes at least two bytes, so a list that is too long need not be opened.
      if (bytes + next.length * 2 > most) return bytes + next.length * 2
      for (const item of next) open.push(item)
    } else {
      bytes += 2
      for (const [key, member] of Object.entries(next)) {
        bytes += utf8Length(key) + 4
        open.push(member)
      }
    }
  }
  return bytes
}
