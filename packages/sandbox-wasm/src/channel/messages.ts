import type { MessagePort } from 'node:worker_threads'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { CompiledQuickjs } from '../quickjs/compile.ts'
import type { Mailbox } from './mailbox.ts'

/** What a thread is asked to run. */
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
  /** Of a program over tools: which run of the thread it is, so that no answer reaches another. */
  readonly gateway?: number
}

export interface Deterministic {
  readonly seed: number
  readonly nowMs: number
}

/** Where a program's bytes go: its streams, and the channel of its own, on which it hands over its value. */
export type Stream = 'stdout' | 'stderr' | 'channel'

/** What became of a job, as the thread saw it. */
export interface ThreadResult {
  readonly exitCode: number
  /** The limit that ended the program. */
  readonly hit: SandboxLimit | undefined
  /** Bytes that were written to each stream, those beyond its limit included. */
  readonly totals: { readonly [Name in Stream]: number }
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  readonly cpuMs: number
  readonly memoryPeakBytes: number
  /** Whether the thread is not fit for another job. */
  readonly spent: boolean
  /** Of a program over tools: what it returned, as JSON text, or how it failed. */
  readonly value?: string
  readonly fault?: ProgramFault
}

/** What a program wrote on one stream without a word on another in between. */
export interface Piece {
  readonly stream: Stream
  readonly bytes: Uint8Array
}

/** What a thread says, besides the questions of programs, of which a text tells; `done`, with the last of the output, and `broken` end a job. `practised` follows on `ready`. */
export type ThreadMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'practised' }
  | { readonly kind: 'output'; readonly pieces: readonly Piece[] }
  | { readonly kind: 'done'; readonly pieces: readonly Piece[]; readonly result: ThreadResult }
  | { readonly kind: 'broken'; readonly reason: string }

/** What a thread is started with: the ways for questions of programs and for their answers. */
export interface ThreadStart {
  /** Compiled elsewhere; absent when the thread has to do so. */
  readonly quickjs?: CompiledQuickjs
  readonly questions: Mailbox
  readonly answers: Mailbox
  /** For what is too long for either. */
  readonly port: MessagePort
  /** Not 0 while the owner looks for questions by itself, so that nobody need wake it. */
  readonly watched: Int32Array<SharedArrayBuffer>
  /** Not 0 while the owner has answers that found no place; a thread that took all that was there wakes it before it sleeps. */
  readonly late: Int32Array<SharedArrayBuffer>
}
