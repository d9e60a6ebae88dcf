import { ToolError } from '@gantry/contract'
import type { Outcome, ProgramFault } from '../runtimes/runtime.ts'

const longestMessage = 2_000
const longestStack = 4_000

/** The error of a program that has ended; undefined when it succeeded. */
export function failureOf({ hit, fault, exit }: Outcome, source: string): ToolError | undefined {
  const details = { limit: hit }
  if (hit === 'wallMs') return new ToolError('TIMEOUT', 'The program did not end within limits.wallMs.', { details })
  if (hit !== undefined) return new ToolError('LIMIT_EXCEEDED', `The program was ended by limits.${hit}.`, { details })
  if (fault !== undefined) return faultError(fault, source)
  if ('code' in exit && exit.code === 0) return undefined
  const how = 'code' in exit ? `ended with exit code ${exit.code}` : `was ended by ${exit.signal}`
  return new ToolError('CODE_FAILED', `The program ${how}.`, { details: { ...exit } })
}

/** The error for a fault, with its position in the author's source. */
function faultError({ kind, name, message, line, column, stack, error }: ProgramFault, source: string): ToolError {
  const frame = line === undefined ? undefined : codeFrame(source, line, column)
  const where = line === undefined ? '' : ` (line ${line}${column === undefined ? '' : `, column ${column}`})`
  const details = {
    ...(line === undefined ? {} : { line }),
    ...(column === undefined ? {} : { column }),
    ...(frame === undefined ? {} : { frame }),
    ...(stack === undefined ? {} : { stack: stack.slice(0, longestStack) }),
    ...(error === undefined ? {} : { error }),
  }
  const text = `${name.slice(0, 100)}: ${message.slice(0, longestMessage)}${where}`
  if (kind === 'compile') return new ToolError('CODE_INVALID', text, { details, effect: 'none' })
  return new ToolError('CODE_FAILED', text, { details })
}

/** The number of lines around the faulty one, and the characters shown of each. */
const around = 2
const widest = 120

/** A few lines of a source with a mark under the column; undefined for a position outside of the source. */
export function codeFrame(source: string, line: number, column: number | undefined): string | undefined {
  const lines = source.split(/\r\n|[\n\r\u2028\u2029]/)
  if (!(line >= 1 && line <= lines.length)) return undefined
  const first = Math.max(1, line - around)
  const last = Math.min(lines.length, line + around)
  const width = String(last).length
  // A long line is truncated around the column.
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
