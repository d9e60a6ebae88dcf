import type { Content, ErrorInfo, Json, Report, Result, StreamEvent, Warning } from '@gantry/contract'
import { errorText, exitCodeOf } from './errors.ts'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { clip, safeBlock, safeJson, safeLine, safeValue } from './terminal.ts'

/** What `run` and `chain` end with. */
interface Outcome {
  readonly output: Json
  /** Absent from a chain. */
  readonly content?: readonly Content[]
  readonly error?: ErrorInfo
  readonly warnings?: readonly Warning[]
}

/** Prints an outcome, as JSON or for a person, and answers with its exit code. */
export async function printOutcome(outcome: Outcome, json: boolean | undefined, io: Io): Promise<number> {
  for (const { code, message, issues = [] } of outcome.warnings ?? []) {
    const where = issues.map((issue) => `\n  ${safeLine(`${issue.path} ${issue.message}`)}`).join('')
    io.err(`warning: ${safeLine(`${code}: ${message}`)}${where}\n`)
  }
  if (outcome.error !== undefined) io.err(errorText(outcome.error))
  if (json === true) await printJson(outcome, io)
  else {
    const output = outcome.output === null ? [] : [safeValue(outcome.output)]
    const lines = [...output, ...(outcome.content ?? []).flatMap(contentLine)]
    if (lines.length > 0) await io.out(`${lines.join('\n')}\n`)
  }
  return exitCodeOf(outcome)
}

/** One JSON document on one line. */
export function printJson(value: unknown, io: Io): Promise<void> {
  return io.out(`${safeJson(value)}\n`)
}

/** What stands for content that is no text, whose words are in the output already; it is foreign, so nothing is sure. */
function contentLine(block: Content): readonly string[] {
  if (block.type === 'text') return []
  const { uri, mimeType, data, blob } = (block.type === 'resource' ? block.resource : block) as {
    readonly [key: string]: unknown
  }
  const base64 = [data, blob].find((value) => typeof value === 'string')
  const facts = [uri, mimeType, base64 === undefined ? undefined : size(base64)]
  const known = facts.filter((fact) => typeof fact === 'string')
  return [safeLine(`[${known.length === 0 ? block.type : known.join(', ')}]`)]
}

function size(base64: string): string {
  const bytes = Buffer.byteLength(base64, 'base64')
  return bytes < 1_024 ? `${bytes} B` : `${Math.round(bytes / 1_024)} KB`
}

/** Prints what happens as it happens, and answers with the exit code of the end; a slow reader slows the events. */
export async function printEvents(events: AsyncIterable<StreamEvent>, options: OptionValues, io: Io): Promise<number> {
  const progress = createProgress(io, options)
  let code = 0
  let chunks = 0
  for await (const event of events) {
    const end = event.kind === 'done' || event.kind === 'error' ? event.result : undefined
    if (event.kind === 'done' || event.kind === 'error') progress.clear()
    else progress.report(event)
    if (options.json === true) {
      await printJson(event, io)
      if (end !== undefined) code = exitCodeOf(end)
      if (end?.error !== undefined) io.err(errorText(end.error))
    } else if (event.kind === 'chunk') {
      progress.clear()
      chunks += 1
      await io.out(chunkText(event))
    } else if (end !== undefined) code = await printOutcome(chunks > 0 ? withoutRepeat(end) : end, false, io)
  }
  return code
}

function chunkText({ data }: Extract<StreamEvent, { kind: 'chunk' }>): string {
  return typeof data === 'string' ? `${safeBlock(data)}\n` : `${safeJson(data)}\n`
}

/** The output of a generator that returns nothing is its chunks again: a list, or one text. */
function withoutRepeat(result: Result): Result {
  return Array.isArray(result.output) || typeof result.output === 'string' ? { ...result, output: null } : result
}

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

/** What a person sees while a call runs: one line that is rewritten and at last erased, and log lines above it. */
export interface Progress {
  report(report: Report): void
  /** Replaces the line by a text of ours. */
  show(text: string): void
  /** Erases the line; before anything else is printed. */
  clear(): void
}

const eraseLine = '\r\x1b[2K'

export function createProgress(io: Io, { quiet, verbose }: OptionValues): Progress {
  let line = ''
  const clear = (): void => {
    if (line !== '') io.err(eraseLine)
    line = ''
  }
  const show = (text: string): void => {
    if (quiet === true || !io.watched) return
    line = clip(safeLine(text), io.columns - 1)
    io.err(`${eraseLine}${line}`)
  }
  const log = (report: Extract<Report, { kind: 'log' }>): void => {
    if (verbose !== true && report.level !== 'warn' && report.level !== 'error') return
    const kept = line
    clear()
    const data = report.data === undefined ? '' : ` ${safeJson(report.data)}`
    io.err(`${report.level}: ${safeLine(report.message)}${data}\n`)
    if (kept !== '') show(kept)
  }
  return {
    report(report) {
      if (report.kind === 'log') log(report)
      else if (report.kind === 'progress') show(progressText(report))
    },
    show,
    clear,
  }
}

/** `3/10 message`, or what of it is known. */
export function progressText({ progress, total, message }: Extract<Report, { kind: 'progress' }>): string {
  const count = total === undefined ? String(progress) : `${progress}/${total}`
  return message === undefined ? count : `${count} ${message}`
}
