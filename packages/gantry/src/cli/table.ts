import type { Io } from './io.ts'
import { clip, safeLine } from './terminal.ts'

/** Rows for a person, each column as wide as its widest cell, cut to the window when there is one. */
export function tableText(
  head: readonly string[],
  rows: readonly (readonly (string | number | undefined)[])[],
  io: Io,
): string {
  const cells = [head, ...rows.map((row) => row.map((cell) => safeLine(String(cell ?? ''))))]
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  const lines = cells.map((row) => {
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
    return io.watched ? clip(line.trimEnd(), io.columns) : line.trimEnd()
  })
  return `${lines.join('\n')}\n`
}

/** A line for each fact that is known. */
export function factsText(facts: { readonly [name: string]: string | number | undefined }): string {
  const known = Object.entries(facts).filter(([, value]) => value !== undefined)
  return known.map(([name, value]) => `${name}: ${safeLine(String(value))}\n`).join('')
}

/** What to add to the command for the next page, when there is one. */
export function moreText(cursor: string | undefined): string {
  return cursor === undefined ? '' : `More: --cursor ${safeLine(cursor)}\n`
}
