import type { ArtifactRef, ErrorInfo, Json, JsonObject, Result } from '@gantry/contract'

/** One thing that a program asks of its host. */
export interface InnerRequest {
  /** From 1 on, in the order in which the program asked; the same in every attempt. */
  readonly number: number
  readonly kind: 'call' | 'chain' | 'sleep' | 'read'
  /** Of a call; as the program named it. */
  readonly tool?: string
  /** Of kind, tool and arguments, as 12 hexadecimal digits: another one under the same number is a divergence. */
  readonly fingerprint: string
  /** Of a sleep, from its first attempt on. */
  readonly sleepMs?: number
  /** Aborted when the program is to end before this has. */
  readonly signal: AbortSignal
}

/** What came of it: the Result of a call, or the value or error of anything else. */
export type InnerOutcome = InnerCost &
  (
    | { readonly kind: 'result'; readonly result: Result }
    | { readonly kind: 'value'; readonly value: Json }
    | { readonly kind: 'error'; readonly error: ErrorInfo }
  )

interface InnerCost {
  /** Calls that were made within it, however deep; they count for the budgets of every attempt. */
  readonly calls?: number
}

/** What a program was told by an earlier attempt. */
export interface JournaledOutcome {
  readonly number: number
  readonly fingerprint: string
  readonly outcome: InnerOutcome
  /** When it was told; the clock of the program shows it. */
  readonly atMs: number
}

/** How an inner call is named and kept. */
export interface InnerNames {
  readonly callId?: string | undefined
  readonly idempotencyKey?: string | undefined
  /** Takes what the inner call writes back. */
  readonly writeBack?: WriteBack | undefined
  /** Where the inner call, should it be a program itself, keeps its own. */
  readonly program?: ProgramJournal
  /** Of a chain: stands around each of its calls, as `around` in the options of one. */
  readonly around?: (step: InnerStep, call: (names?: StepNames) => Promise<Result>) => Promise<Result>
  /** Of a chain: whether an earlier attempt had the outcome of a call. */
  readonly recalls?: (step: InnerStep) => boolean
}

/** One call of a chain that a program runs. */
export interface InnerStep {
  readonly stepId: string
  /** Position of the element in a `forEach`. */
  readonly index?: number
  readonly tool: string
  readonly args: JsonObject
  readonly decisive: boolean
  readonly signal: AbortSignal
}

export type StepNames = Pick<InnerNames, 'callId' | 'idempotencyKey' | 'writeBack' | 'program'>

/**
 * Keeps what a program asked for and was told, so that a later attempt, here or elsewhere, comes to the same place
 * without doing again what is done. The program is deterministic: seed, first time and what it is told, in this order, are
 * all that it learns.
 * - Concurrency: `settle` is called for several at once.
 * - Order: outcomes are told in the order in which `settle` resolves, and `told` has them in the same order.
 * - Errors: a rejection of `settle` ends the attempt, whatever the program would do about it; it is then the failure of
 *   the program's call.
 */
export interface ProgramJournal {
  readonly seed: number
  readonly startedMs: number
  readonly outcomes: readonly JournaledOutcome[]
  /** Whether an earlier attempt had begun the program, told of something or not. */
  readonly resumed?: boolean
  /**
   * Hears each time that the program can do nothing without an answer, when all that it asked for has begun: how many
   * outcomes it had been told until then, those of `told` included. Not called while it may do something else, such as in
   * a thread.
   */
  onQuiescent?(told: number): void
  /** Stands around what no earlier attempt was told of; resolves when the program may hear of it. */
  settle(
    ask: InnerRequest,
    make: (names?: InnerNames) => Promise<InnerOutcome>,
  ): Promise<{
    readonly outcome: InnerOutcome
    readonly atMs: number
  }>
}

/**
 * Where what a tool writes back to its caller goes while it runs; the host of a call gives it.
 * - Order: `send` is called in the order of the messages, without waiting for the one before.
 * - Cancellation: the signal is the call's own; after it has aborted nobody waits any more.
 * - Errors: a failure is a warning on the result, never the failure of the call; the tool hears of one in `keep`.
 */
export interface WriteBack {
  /**
   * Takes a message, as it may leave, with its number within the call, from 1 on; a repeat within the call goes on
   * counting. The message counts as sent when it is safe: at once, or when the promise resolves. Without this function
   * messages are only effects of the result.
   */
  readonly send?: (message: Json, number: number, signal: AbortSignal) => void | Promise<void>
  /** Keeps a file, as it may leave; durable when it resolves. */
  readonly keep?: (file: WrittenFile, signal: AbortSignal) => Promise<ArtifactRef>
}

/** A file on its way out of a call; the content is the receiver's own. */
export interface WrittenFile {
  /** A plain name, without folders. */
  readonly name: string
  readonly mimeType: string
  readonly content: Uint8Array
}
