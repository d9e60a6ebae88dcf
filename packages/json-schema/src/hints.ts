import { typeNames } from './keywords/type.ts'

const otherNames: ReadonlyMap<string, string> = new Map([
  ['int', 'integer'],
  ['long', 'integer'],
  ['float', 'number'],
  ['double', 'number'],
  ['decimal', 'number'],
  ['bool', 'boolean'],
  ['str', 'string'],
  ['text', 'string'],
  ['list', 'array'],
  ['tuple', 'array'],
  ['dict', 'object'],
  ['map', 'object'],
  ['none', 'null'],
  ['nil', 'null'],
  ['undefined', 'null'],
])

/** `; did you mean string?` for a name that is near one or means the same elsewhere. */
export function suggestType(name: unknown): string {
  if (typeof name !== 'string' || name.length > 20) return ''
  const lower = name.toLowerCase()
  if (lower === 'any') return '; leave type out to allow any'
  const meant = otherNames.get(lower) ?? typeNames.find((known) => distance(lower, known) <= 2)
  return meant === undefined ? '' : `; did you mean ${meant}?`
}

/** Edits that turn one short word into another. */
function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}
