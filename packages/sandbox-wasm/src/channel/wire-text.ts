import type { ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'

/**
 * How questions and answers are written between a thread and its owner: one text each, because nothing crosses faster.
 * JSON text has no line breaks of its own.
 */

/** How many answers the program was told until this rest, and what it asked before it: a line for each question, behind a break. */
export function writeRest(told: number, asked: string): string {
  return `${told}${asked}`
}

/** What was written; the questions are numbered from the one after `last` on. */
export function readRest(
  written: string,
  last: number,
): { readonly told: number; readonly questions: readonly ProgramRequest[] } {
  const questions: ProgramRequest[] = []
  for (let at = written.indexOf('\n'); at >= 0; ) {
    const next = written.indexOf('\n', at + 1)
    // Nothing is looked for beyond a line, because a program may have found the way to write lines of its own.
    const line = written.slice(at + 1, next < 0 ? undefined : next)
    questions.push(questionOf(line, last + questions.length + 1))
    at = next
  }
  // The number ends where the first question begins.
  return { told: Number.parseInt(written, 10), questions }
}

function questionOf(line: string, number: number): ProgramRequest {
  const space = line.indexOf(' ')
  return { number, kind: line.slice(0, space), text: line.slice(space + 1) }
}

/** `run time number 1 text`; the time may be missing. */
export function writeAnswer(run: number, { number, ok, text, nowMs }: ProgramResponse): string {
  return `${run} ${nowMs ?? ''} ${number} ${ok ? 1 : 0} ${text}`
}

/** Asks a run to end where it rests. */
export function writeStop(run: number): string {
  return `${run}  `
}

/** An answer as a thread reads it; without a number it asks the run to end. */
export interface WrittenAnswer {
  readonly run: number
  readonly nowMs: number | undefined
  readonly number: number | undefined
  readonly ok: boolean
  readonly text: string
}

export function readAnswer(written: string): WrittenAnswer {
  const first = written.indexOf(' ')
  const second = written.indexOf(' ', first + 1)
  const third = written.indexOf(' ', second + 1)
  return {
    run: Number(written.slice(0, first)),
    nowMs: second === first + 1 ? undefined : Number(written.slice(first + 1, second)),
    number: third < 0 ? undefined : Number(written.slice(second + 1, third)),
    ok: written[third + 1] === '1',
    text: written.slice(third + 3),
  }
}
