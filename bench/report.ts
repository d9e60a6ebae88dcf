/** One table; cells are text already. */
export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** One part of the page. */
export interface Section {
  readonly title: string
  readonly tables: readonly Table[]
  /** Output of a program, shown verbatim. */
  readonly text?: string
  readonly notes: readonly string[]
}

/** A number with three significant digits, and thousands apart. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '–'
  return Math.abs(value) < 1_000
    ? value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
    : Math.round(value).toLocaleString('en-US')
}

/** How many times the other value one is. */
export function ratio(value: number, other: number): string {
  return Number.isFinite(value / other) ? `${figure(value / other)}×` : '–'
}

/** A section as Markdown that also reads well in a terminal. */
export function sectionText({ title, tables, text, notes }: Section): string {
  const shown = text === undefined ? '' : `\`\`\`text\n${text.trimEnd()}\n\`\`\``
  const parts = [`## ${title}`, ...tables.map(tableText), shown, notes.map((note) => `- ${note}`).join('\n')]
  return parts.filter((part) => part !== '').join('\n\n')
}

/** Columns are padded to one width; all but the first are numbers and sit to the right. */
function tableText({ head, rows }: Table): string {
  const widths = head.map((title, column) =>
    Math.max(3, ...[head, ...rows].map((row) => row[column]?.length ?? title.length)),
  )
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => pad(cells[column] ?? '', width, column)).join(' | ')} |`
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width)
}
