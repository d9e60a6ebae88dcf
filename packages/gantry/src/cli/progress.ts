import type { Report } from '@gantry/contract'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { clip, safeJson, safeLine } from './terminal.ts'

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
