/**
 * A source map of the compiler, with one mapping for each line. What a stack trace and
 * a debugger need are lines; all mappings would make the packages half as large again.
 */
export function lineMap(text: string, { source, keepsText }: LineMapOptions): string {
  const { file, mappings, sourcesContent } = JSON.parse(text) as SourceMap
  const map: SourceMap = { version: 3, file, sources: [source], names: [], mappings: firstOfLines(mappings) }
  return JSON.stringify(keepsText ? { ...map, sourcesContent } : map)
}

export interface LineMapOptions {
  /** Path of the source, as seen from the map. */
  readonly source: string
  /** Whether the text of the source stays in the map. */
  readonly keepsText: boolean
}

interface SourceMap {
  readonly version: 3
  readonly file: string
  readonly sources: readonly string[]
  readonly names: readonly string[]
  readonly mappings: string
  readonly sourcesContent?: readonly string[]
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** Every number but the column in the output is relative to that of the mapping before, across lines. */
function firstOfLines(mappings: string): string {
  let [line, column] = [0, 0]
  let [lastLine, lastColumn] = [0, 0]
  const lines = mappings.split(';').map((ofLine) => {
    let first: string | undefined
    for (const mapping of ofLine.split(',').filter(Boolean)) {
      const [at = 0, , lines = 0, columns = 0] = decode(mapping)
      line += lines
      column += columns
      if (first !== undefined) continue
      first = [at, 0, line - lastLine, column - lastColumn].map(encode).join('')
      lastLine = line
      lastColumn = column
    }
    return first ?? ''
  })
  return lines.join(';')
}

/** Base64 VLQ: five bits a digit, the lowest first; the sixth says that more follow, the very lowest is the sign. */
function decode(mapping: string): readonly number[] {
  const numbers: number[] = []
  let [value, shift] = [0, 0]
  for (const character of mapping) {
    const digit = digits.indexOf(character)
    value |= (digit & 31) << shift
    shift += 5
    if (digit >= 32) continue
    numbers.push(value & 1 ? -(value >> 1) : value >> 1)
    value = 0
    shift = 0
  }
  return numbers
}

function encode(number: number): string {
  let text = ''
  let left = number < 0 ? (-number << 1) | 1 : number << 1
  do {
    const more = left > 31 ? 32 : 0
    text += digits.charAt((left & 31) | more)
    left >>= 5
  } while (left > 0)
  return text
}
