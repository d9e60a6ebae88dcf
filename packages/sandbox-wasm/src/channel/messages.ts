import type { MessagePort } from 'node:worker_threads'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import type { ProgramFault, ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import type { Stream } from '../guest/streams.ts'
import type { Mailbox } from './mailbox.ts'

/** A job for a thread. */
export interface ThreadJob {
  readonly program:
    | { readonly kind: 'code'; readonly language: string; readonly code: string }
    | { readonly kind: 'wasi'; readonly module: Uint8Array; readonly argv: readonly string[] }
  readonly limits: SandboxLimits
  readonly env: { readonly [name: string]: string }
  readonly stdin: Uint8Array
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly collect: { readonly files: number; readonly bytes: number } | undefined
  readonly deterministic: Deterministic | undefined
  /** Keeps the interpreter and its workspace for the next job. */
  readonly session: boolean
  /** For a program with a gateway: the run number of the thread, so that no response reaches another run. */
  readonly gateway?: number
}

export interface Deterministic {
  readonly seed: number
  readonly nowMs: number
}

/** The result of a job as the thread reports it. */
export interface ThreadResult {
  readonly exitCode: number
  /** The limit that ended the program. */
  readonly hit: SandboxLimit | undefined
  /** Bytes written to each stream, including those above its limit. */
  readonly totals: { readonly [Name in Stream]: number }
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  readonly cpuMs: number
  readonly memoryPeakBytes: number
  /** Whether the thread cannot run another job. */
  readonly spent: boolean
  /** For a program with a gateway: its value as JSON text, or its failure. */
  readonly value?: string
  readonly fault?: ProgramFault
}

/** Consecutive output of one stream. */
export interface Piece {
  readonly stream: Stream
  readonly bytes: Uint8Array
}

/**
 * Messages of a thread, in addition to the text that announces gateway requests. `done`, with the last output, and `broken` end
 * a job. `practised` follows `ready`.
 */
export type ThreadMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'practised' }
  | { readonly kind: 'output'; readonly pieces: readonly Piece[] }
  | { readonly kind: 'done'; readonly pieces: readonly Piece[]; readonly result: ThreadResult }
  | { readonly kind: 'broken'; readonly reason: string }

/** The shared memory and the port that carry gateway requests and responses between a thread and its owner. */
export interface ChannelStart {
  readonly requests: Mailbox
  readonly answers: Mailbox
  /** For texts that are too long for either mailbox. */
  readonly port: MessagePort
  /** Not 0 while the owner polls for requests, so that the thread need not wake it. */
  readonly watched: Int32Array<SharedArrayBuffer>
  /**
   * Not 0 while the owner holds responses that did not fit; a thread that has read everything wakes it before it sleeps.
   */
  readonly late: Int32Array<SharedArrayBuffer>
}

/**
 * The text format of gateway requests and responses between a thread and its owner: one text each, because nothing is faster.
 * JSON text contains no line breaks.
 */

/** The number of responses that the program has read, and its requests: a line for each, after a line break. */
export function writeRequests(delivered: number, asked: string): string {
  return `${delivered}${asked}`
}

/** Parses the text; requests are numbered from `last + 1`. */
export function readRequests(
  written: string,
  last: number,
): { readonly delivered: number; readonly requests: readonly ProgramRequest[] } {
  const requests: ProgramRequest[] = []
  for (let at = written.indexOf('\n'); at >= 0; ) {
    const next = written.indexOf('\n', at + 1)
    // Only this line is searched, because a program may have found a way to write its own lines.
    const line = written.slice(at + 1, next < 0 ? undefined : next)
    requests.push(requestOf(line, last + requests.length + 1))
    at = next
  }
  // The number ends where the first request begins.
  return { delivered: Number.parseInt(written, 10), requests }
}

function requestOf(line: string, number: number): ProgramRequest {
  const space = line.indexOf(' ')
  return { number, kind: line.slice(0, space), text: line.slice(space + 1) }
}

/** `run time number 1 text`; the time may be missing. */
export function writeResponse(run: number, { number, ok, text, nowMs }: ProgramResponse): string {
  return `${run} ${nowMs ?? ''} ${number} ${ok ? 1 : 0} ${text}`
}

/** Asks a run to end at its quiescence. */
export function writeStop(run: number): string {
  return `${run}  `
}

/** A response as a thread reads it; without a number it asks the run to end. */
export interface WrittenResponse {
  readonly run: number
  readonly nowMs: number | undefined
  readonly number: number | undefined
  readonly ok: boolean
  readonly text: string
}

export function readResponse(written: string): WrittenResponse {
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
