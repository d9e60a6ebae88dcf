import { plainLine } from './sections.ts'

const fence = /^\s*(`{3,}|~{3,})/

/** A Markdown page for a terminal: wrapped text, aligned tables, code as it is. No line is longer unless code is. */
export function plainPage(markdown: string, width: number): string {
  const lines: string[] = []
  const source = markdown.split('\n')
  for (let at = 0; at < source.length; at++) {
    const line = source[at] ?? ''
    const mark = fence.exec(line)?.[1]
    if (mark !== undefined) {
      const end = source.findIndex((other, index) => index > at && other.trim() === mark)
      const last = end === -1 ? source.length : end
      lines.push(...source.slice(at + 1, last).map((each) => `    ${each}`))
      at = last
    } else if (isRow(line)) {
      const end = source.findIndex((other, index) => index > at && !isRow(other))
      const last = end === -1 ? source.length : end
      lines.push(...table(source.slice(at, last), width))
      at = last - 1
    } else {
      const end = source.findIndex((other, index) => index > at && !continues(other))
      const last = end === -1 || !isText(line) ? at + 1 : end
      lines.push(...block(source.slice(at, last).join(' '), width))
      at = last - 1
    }
  }
  return `${lines
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()}\n`
}

function isRow(line: string): boolean {
  return line.trimStart().startsWith('|')
}

function isText(line: string): boolean {
  return line.trim() !== '' && !/^#{1,6}\s/.test(line)
}

/** Whether a line goes on with the paragraph or the item above it. */
function continues(line: string): boolean {
  return isText(line) && !isRow(line) && !fence.test(line) && !/^\s*(?:[-*]|\d+\.)\s/.test(line)
}

function block(line: string, width: number): readonly string[] {
  const [, level = '', heading = ''] = /^(#{1,6})\s+(.*)$/.exec(line) ?? []
  if (level !== '') {
    const text = plainLine(heading)
    return level.length > 2 ? ['', text] : ['', text, (level === '#' ? '=' : '-').repeat(Math.min(text.length, width))]
  }
  const [, indent = '', bullet = ''] = /^(\s*)([-*]|\d+\.)\s/.exec(line) ?? []
  if (bullet === '') return wrap(plainLine(line), width)
  const lead = `${indent}${bullet === '*' ? '-' : bullet} `
  return wrap(plainLine(line), width - lead.length).map(
    (each, index) => `${index === 0 ? lead : ' '.repeat(lead.length)}${each}`,
  )
}

/** Lines of at most `width`, unless one word is longer. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = ['']
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1) ?? ''
    if (last === '') lines[lines.length - 1] = word
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

/** Rows of a table. One that fits is aligned; one that does not is a paragraph for each row. */
function table(rows: readonly string[], width: number): readonly string[] {
  const cells = rows.filter((row) => !/^\s*\|?[\s:|-]+\|?\s*$/.test(row)).map(cellsOf)
  const [head = [], ...body] = cells
  const widths = head.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)))
  const total = widths.reduce((sum, each) => sum + each + 2, 0)
  if (total <= width) {
    const line = (row: readonly string[]): string =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()
    return [
      ...(head.some((cell) => cell !== '') ? [line(head), widths.map((each) => '-'.repeat(each)).join('  ')] : []),
      ...body.map(line),
    ]
  }
  return body.flatMap(([first = '', ...rest]) => [
    ...wrap(first, width),
    ...rest.flatMap((cell, column) => {
      const name = head[column + 1] ?? ''
      const shown = name === '' ? cell : `${name}: ${cell}`
      return cell === '' ? [] : wrap(shown, width - 4).map((each) => `    ${each}`)
    }),
  ])
}

function cellsOf(row: string): readonly string[] {
  const inner = row
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
  return inner.split(/(?<!\\)\|/).map((cell) => plainLine(cell.replaceAll('\\|', '\\\\|')).replaceAll('\\', ''))
}
