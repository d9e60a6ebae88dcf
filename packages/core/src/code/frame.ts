/** Lines around the one in question, and how much of each is shown. */
const around = 2
const widest = 120

/** A few lines of a source with a mark under the place, for people and models to read; undefined for a place outside. */
export function codeFrame(source: string, line: number, column: number | undefined): string | undefined {
  const lines = source.split(/\r\n|[\n\r\u2028\u2029]/)
  if (!(line >= 1 && line <= lines.length)) return undefined
  const first = Math.max(1, line - around)
  const last = Math.min(lines.length, line + around)
  const width = String(last).length
  // A long line is cut so that the place in it stays in sight.
  const start = column === undefined || column < widest ? 0 : column - Math.floor(widest / 2)
  const shown = (number: number): string => (lines[number - 1] ?? '').slice(start, start + widest).replaceAll('\t', ' ')
  const rows: string[] = []
  for (let number = first; number <= last; number += 1) {
    rows.push(`${number === line ? '>' : ' '} ${String(number).padStart(width)} | ${shown(number)}`.trimEnd())
    if (number === line && column !== undefined)
      rows.push(`  ${' '.repeat(width)} | ${' '.repeat(column - 1 - start)}^`)
  }
  return rows.join('\n')
}
