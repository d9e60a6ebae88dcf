import { type CodeInfo, codes, type EffectRisk, type ErrorCode, type Stage } from './codes.ts'
import type { Json } from './json.ts'
import type { Result } from './result.ts'

/** One thing wrong with a value: where, by which rule, in a sentence. */
export interface Issue {
  /** JSON Pointer into the value; `''` is the value itself. */
  readonly path: string
  /** JSON Pointer into the schema, when a schema decided. */
  readonly schemaPath?: string
  readonly keyword?: string
  readonly message: string
}

/** Structured details of the error. */
export interface ErrorDetails {
  readonly issues?: readonly Issue[]
  readonly nearest?: readonly string[]
  readonly retryAfterMs?: number
  readonly [key: string]: unknown
}

/** Where a failure came from, as far as it may be shown. */
export interface ErrorCause {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly cause?: ErrorCause
}

/** An error as it crosses a process. */
export interface ErrorInfo {
  readonly code: ErrorCode
  readonly message: string
  readonly stage: Stage
  readonly retryable: boolean
  readonly effect: EffectRisk
  readonly details?: { readonly [key: string]: Json }
  readonly cause?: ErrorCause
  /** The tool threw, instead of reporting that it failed. */
  readonly exception?: true
}

export interface ToolErrorOptions extends ErrorOptions {
  readonly details?: ErrorDetails
  /** Overrides the effect of the code table with a more precise one. */
  readonly effect?: EffectRisk
  readonly retryable?: boolean
  readonly stage?: Stage
  readonly result?: Result
  /** The error was thrown by the tool. */
  readonly exception?: true
}

const marker: unique symbol = Symbol.for('gantry.error')

/** The only error class of Gantry; `ToolError.is` holds across realms and duplicate installs. */
export class ToolError extends Error {
  readonly [marker] = true
  override readonly name = 'ToolError'
  readonly code: ErrorCode
  readonly stage: Stage
  readonly retryable: boolean
  readonly effect: EffectRisk
  readonly details: ErrorDetails | undefined
  /** The whole Result, on errors thrown by `runOrThrow`. */
  readonly result: Result | undefined
  /** Whether the tool threw the error, instead of reporting a failure. */
  readonly exception: true | undefined

  constructor(code: ErrorCode, message: string, options: ToolErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    const row: CodeInfo = codes[code]
    this.code = code
    this.stage = options.stage ?? row.stage
    this.retryable = options.retryable ?? row.retryable
    this.effect = options.effect ?? row.effect
    this.details = options.details
    this.result = options.result
    this.exception = options.exception
  }

  static is(value: unknown): value is ToolError {
    return typeof value === 'object' && value !== null && marker in value
  }
}
