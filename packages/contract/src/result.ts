import type { ChainResult, StepResult } from './chain.ts'
import type { ErrorCode } from './codes.ts'
import type { ErrorInfo, Issue } from './error.ts'
import type { Json } from './json.ts'

/** How a call ended. There is exactly one end. */
export type ResultStatus = 'ok' | 'failed' | 'denied' | 'timeout' | 'cancelled' | 'unknown'

/** A piece of content for a model or a person, as in MCP. */
export type Content =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image' | 'audio'; readonly data: string; readonly mimeType: string }
  | { readonly type: 'resource'; readonly resource: { readonly [key: string]: Json } }
  | {
      readonly type: 'resource_link'
      readonly uri: string
      readonly name: string
      readonly mimeType?: string
      /** In bytes. */
      readonly size?: number
    }

/** Something that did not stop the call but that its reader should know. */
export interface Warning {
  readonly code: ErrorCode | 'DEPRECATED'
  readonly message: string
  readonly issues?: readonly Issue[]
}

/** A file stored outside the result. */
export interface ArtifactRef {
  readonly id: string
  readonly name: string
  readonly mimeType: string
  readonly bytes: number
  /** `sha256:` and the hex digits of the content. */
  readonly digest: string
}

/** An effect on the caller's world. */
export type Effect =
  | { readonly kind: 'file'; readonly artifact: ArtifactRef }
  | { readonly kind: 'tool'; readonly tool: string }
  | { readonly kind: 'message'; readonly message: Json }

/** What the run cost, as measured. */
export interface Usage {
  readonly wallMs: number
  readonly cpuMs?: number
  readonly memoryPeakBytes?: number
  /** The enforced limits, and what enforces each. */
  readonly enforced: { readonly [limit: string]: string }
  /** The limit that ended the run. */
  readonly hit?: string
}

/** The tool that really ran. */
export interface ResultTool {
  readonly id: string
  readonly version: string
}

/** What the program of a call ran in. */
export interface ResultRuntime {
  readonly kind: string
  readonly isolation: string
  /** The digest of the image, where a container was made from one: `sha256:…`. */
  readonly image?: string
  /** The kind that another host selected, where the program ran on one. */
  readonly inner?: string
  /** The digests of the configured packages that the program could use, by kind: `{python: 'sha256:…'}`. */
  readonly packages?: { readonly python?: string; readonly node?: string }
}

/** The one outcome of a call, whatever it was. */
export interface Result {
  readonly callId: string
  /** Absent when no tool was found. */
  readonly tool?: ResultTool
  /** Absent when the call ended before a backend was chosen. */
  readonly backend?: { readonly kind: string; readonly name: string }
  readonly runtime?: ResultRuntime
  readonly status: ResultStatus
  readonly output: Json
  readonly content: readonly Content[]
  readonly error?: ErrorInfo
  readonly warnings: readonly Warning[]
  readonly artifacts: readonly ArtifactRef[]
  readonly effects: readonly Effect[]
  readonly usage: Usage
  /** Of a program over tools. */
  readonly program?: ProgramReport
  readonly attempts: number
  readonly startedAt: string
  readonly durationMs: number
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** What a tool reports while it runs. */
export type Report =
  | { readonly kind: 'progress'; readonly progress: number; readonly total?: number; readonly message?: string }
  | { readonly kind: 'chunk'; readonly data: Json }
  | { readonly kind: 'log'; readonly level: LogLevel; readonly message: string; readonly data?: Json }

/** The last event of a stream, with the whole Result. */
export type StreamEnd =
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'error'; readonly error: ErrorInfo; readonly result: Result }

/** One event of a call; ids increase within it, so a reader can resume after any. */
export type StreamEvent = (Report | StreamEnd) & { readonly id: number; readonly callId: string }

/** How a call ended, as metrics and the audit log count it: `failed` is what a tool reported, `exception` what it threw. */
export type OutcomeClass = ResultStatus | 'exception'

/** Codes of what a program threw itself, and of failures of Gantry. */
const thrown: readonly ErrorInfo['code'][] = ['CODE_FAILED', 'INTERNAL']

export function outcomeClassOf({ status, error }: Pick<Result, 'status' | 'error'>): OutcomeClass {
  if (status !== 'failed' || error === undefined) return status
  return error.exception === true || thrown.includes(error.code) ? 'exception' : 'failed'
}

/** How many attempts were made beyond the first of each call. */
export function retriesOf(result: Result | ChainResult): number {
  return 'steps' in result ? retriesOfSteps(result.steps) : Math.max(0, result.attempts - 1)
}

function retriesOfSteps(steps: readonly StepResult[]): number {
  return steps.reduce(
    (sum, { results, steps: members = [] }) =>
      sum + results.reduce((all, result) => all + retriesOf(result), 0) + retriesOfSteps(members),
    0,
  )
}

/** Languages that a program over tools may be written in; `workflow` is the short form of `name := run(…)`. */
export type ProgramLanguage = 'javascript' | 'typescript' | 'python' | 'workflow'

/** Limits of a program over tools; absent limits have defaults, and a host may set lower ones. */
export interface ProgramLimits {
  /** Calls of tools, those of the chains that it runs included. */
  readonly toolCalls?: number
  /** Steps of the chains that it runs, all together. */
  readonly chainSteps?: number
  /** How deep programs may be nested; 1 is a program that runs no other. */
  readonly depth?: number
  /** Calls that run at a time; further calls wait. */
  readonly parallel?: number
  readonly wallMs?: number
  readonly cpuMs?: number
  readonly memoryBytes?: number
  /** What it may print. */
  readonly stdoutBytes?: number
}

/** One inner call of a program, in the order of its requests. */
export interface ProgramCall {
  /** From 1 on, as it was numbered inside the sandbox. */
  readonly number: number
  readonly callId: string
  readonly tool: string
  readonly status: ResultStatus
  readonly code?: ErrorCode
  readonly startedAt: string
  readonly durationMs: number
  /** It was not made: an earlier attempt at the program had its outcome. */
  readonly recalled?: true
}

/** The output streams and inner calls of a program. */
export interface ProgramReport {
  readonly language: ProgramLanguage
  /** What it printed, up to its limit. */
  readonly printed: string
  readonly truncated?: true
  readonly calls: readonly ProgramCall[]
  /** Calls that are not listed, because there were too many. */
  readonly omitted?: number
}
