import type { Content, ErrorInfo, Json, Report, Result, StreamEvent, Warning } from '@gantry/contract'
import { mediaType } from '@gantry/core/internal/artifacts/artifact'
import { errorText, exitCodeOf } from './errors.ts'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { clip, safeBlock, safeJson, safeLine, safeValue } from './terminal.ts'

/** The outcome of `run` and `chain`. */
interface Outcome {
  readonly output: Json
  /** Absent from a chain. */
  readonly content?: readonly Content[]
  readonly error?: ErrorInfo
  readonly warnings?: readonly Warning[]
}

/** Prints an outcome as JSON or text, and returns its exit code. */
export async function printOutcome(outcome: Outcome, json: boolean | undefined, io: Io): Promise<number> {
  for (const { code, message, issues = [] } of outcome.warnings ?? []) {
    const where = issues.map((issue) => `\n  ${safeLine(`${issue.path} ${issue.message}`)}`).join('')
    io.err(`warning: ${safeLine(`${code}: ${message}`)}${where}\n`)
  }
  if (outcome.error !== undefined) io.err(errorText(outcome.error))
  if (json === true) await printJson(outcome, io)
  else {
    const output = outcome.output === null ? [] : [safeValue(withoutBytes(outcome.output))]
    const lines = [...output, ...(outcome.content ?? []).flatMap(contentLine)]
    if (lines.length > 0) await io.out(`${lines.join('\n')}\n`)
  }
  return exitCodeOf(outcome)
}

/** One JSON document on one line. */
export function printJson(value: unknown, io: Io): Promise<void> {
  return io.out(`${safeJson(value)}\n`)
}

/** A placeholder for content that is not text. Content is foreign, so its types are checked. */
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

const deepest = 32

/** Longer texts of files, such as tables, are shown by type and size; `--json` and `--out` have them whole. */
const longestFileText = 2_000

/**
 * A value in which files that are bytes or long texts stand by type and size: base64 tells a reader nothing, and a table
 * hides the rest of the output. The texts of files are the members of `files`.
 */
function withoutBytes(value: Json, path = '', depth = 0, within = ''): Json {
  if (typeof value === 'string' && within === 'files' && value.length > longestFileText) {
    return `[${mediaType(path, Buffer.from(value.slice(0, 4_096)))}, ${sizeText(Buffer.byteLength(value))}]`
  }
  if (typeof value !== 'object' || value === null || depth > deepest) return value
  if (Array.isArray(value)) return value.map((item) => withoutBytes(item, path, depth + 1))
  const { base64 } = value
  if (typeof base64 === 'string' && Object.keys(value).length === 1) {
    return `[${mediaType(path, Buffer.from(base64.slice(0, 4_096), 'base64'))}, ${size(base64)}]`
  }
  const members = Object.entries(value).map(([key, member]) => [key, withoutBytes(member, key, depth + 1, path)])
  return Object.fromEntries(members)
}

function size(base64: string): string {
  return sizeText(Buffer.byteLength(base64, 'base64'))
}

function sizeText(bytes: number): string {
  return bytes < 1_024 ? `${bytes} B` : `${Math.round(bytes / 1_024)} KB`
}

/** Prints events as they arrive and returns the exit code of the last one; a slow reader applies backpressure. */
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

/** A text table. Each column is as wide as its widest cell; lines are truncated to the width of the terminal. */
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

/** One line for each defined field. */
export function factsText(facts: { readonly [name: string]: string | number | undefined }): string {
  const known = Object.entries(facts).filter(([, value]) => value !== undefined)
  return known.map(([name, value]) => `${name}: ${safeLine(String(value))}\n`).join('')
}

/** The option that continues with the next page, if there is one. */
export function moreText(cursor: string | undefined): string {
  return cursor === undefined ? '' : `More: --cursor ${safeLine(cursor)}\n`
}

/** Progress on a terminal while a call runs: one line that is rewritten and finally erased, with log lines above it. */
export interface Progress {
  report(report: Report): void
  /** Replaces the line with the given text. */
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

/** `3/10 message`, or its known parts. */
export function progressText({ progress, total, message }: Extract<Report, { kind: 'progress' }>): string {
  const count = total === undefined ? String(progress) : `${progress}/${total}`
  return message === undefined ? count : `${count} ${message}`
}
