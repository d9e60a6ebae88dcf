import type { ArtifactRef, ErrorInfo, Json, JsonObject, Result } from '@gantry/contract'

/** A gateway request of a program. */
export interface InnerRequest {
  /** Starts at 1, in the order of the requests; the same in every attempt. */
  readonly number: number
  readonly kind: 'call' | 'chain' | 'sleep' | 'read'
  /** For a call: the id that the program used. */
  readonly tool?: string
  /** For a call its arguments, for a chain `{steps, input}`: for a host that performs them elsewhere. As hostile as the program. */
  readonly args?: Json | undefined
  /** Digest of kind, tool and arguments, 12 hex digits: another fingerprint under the same number is a divergence. */
  readonly fingerprint: string
  /** For a sleep: its duration, from its first attempt on. */
  readonly sleepMs?: number
  /** Aborted when the program ends before the request. */
  readonly signal: AbortSignal
}

/** The outcome of a request: the Result of a call, or the value or error of any other request. */
export type InnerOutcome = InnerCost &
  (
    | { readonly kind: 'result'; readonly result: Result }
    | { readonly kind: 'value'; readonly value: Json }
    | { readonly kind: 'error'; readonly error: ErrorInfo }
  )

interface InnerCost {
  /** Calls made within it, at any depth; they count towards the budgets of every attempt. */
  readonly calls?: number
}

/** An outcome that a program received in an earlier attempt. */
export interface JournaledOutcome {
  readonly number: number
  readonly fingerprint: string
  readonly outcome: InnerOutcome
  /** When the program received it, by the clock of the program. */
  readonly atMs: number
}

/** Identity and journaling of an inner call. */
export interface InnerNames {
  readonly callId?: string | undefined
  readonly idempotencyKey?: string | undefined
  /** Receives the effects of the inner call. */
  readonly effectSink?: EffectSink | undefined
  /** The journal of the inner call, when it is a program itself. */
  readonly program?: ProgramJournal
  /** For a chain: wraps each of its calls, like `around` in the options of a chain. */
  readonly around?: (step: InnerStep, call: (names?: StepNames) => Promise<Result>) => Promise<Result>
  /** For a chain: whether the journal has the outcome of a call. */
  readonly recalls?: (step: InnerStep) => boolean
}

/** One call of a chain; `stepId` and `index` identify it, the same in every run of the chain. */
export interface InnerStep {
  readonly stepId: string
  /** Position of the element in a `forEach`. */
  readonly index?: number
  readonly tool: string
  /** The bound arguments of the call. */
  readonly args: JsonObject
  /** The chain ends when this call fails. */
  readonly decisive: boolean
  /** Aborted when the chain ends before this call. */
  readonly signal: AbortSignal
}

export type StepNames = Pick<InnerNames, 'callId' | 'idempotencyKey' | 'effectSink' | 'program'>

/**
 * Journals the requests of a program and their outcomes, so that a later attempt, in any process, replays to the same
 * state without repeating finished calls. The program is deterministic: the seed, the start time and the outcomes in
 * their order are its only inputs.
 * - Concurrency: `settle` is called for several requests at once.
 * - Order: outcomes are delivered in the order in which `settle` resolves, and `outcomes` has the same order.
 * - Errors: a rejection of `settle` ends the attempt, and the program cannot catch it; the call of the program fails with
 *   it.
 */
export interface ProgramJournal {
  readonly seed: number
  readonly startedMs: number
  readonly outcomes: readonly JournaledOutcome[]
  /** Whether an earlier attempt started the program, with or without journaled outcomes. */
  readonly resumed?: boolean
  /**
   * Called each time the program is quiescent: it waits for responses only, and all its requests have started. `received`
   * counts the outcomes it has received, including those of `outcomes`. Not called while the program may do other work,
   * such as in a thread.
   */
  onQuiescent?(received: number): void
  /** Wraps a request without a journaled outcome; resolves when the outcome may be delivered to the program. */
  settle(
    ask: InnerRequest,
    make: (names?: InnerNames) => Promise<InnerOutcome>,
  ): Promise<{
    readonly outcome: InnerOutcome
    readonly atMs: number
  }>
}

/**
 * Delivers the effects of a running tool to its caller; provided by the host of a call.
 * - Order: `send` is called in the order of the messages, without waiting for the previous one.
 * - Cancellation: the signal is that of the call; after it has aborted, no caller waits for the result.
 * - Errors: a failure is a warning on the result and never fails the call; the tool receives an error of `keep`.
 */
export interface EffectSink {
  /**
   * Sends a redacted message with its number within the call, from 1 on; a retry within the call continues the numbering.
   * The message counts as sent when it is durable: at once, or when the promise resolves. Without this function messages
   * are only effects of the result.
   */
  readonly send?: (message: Json, number: number, signal: AbortSignal) => void | Promise<void>
  /** Stores a redacted file; durable when it resolves. */
  readonly keep?: (file: WrittenFile, signal: AbortSignal) => Promise<ArtifactRef>
}

/** A file that leaves a call; the receiver owns the content. */
export interface WrittenFile {
  /** A plain name, without folders. */
  readonly name: string
  readonly mimeType: string
  readonly content: Uint8Array
}
