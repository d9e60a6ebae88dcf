import type { ErrorCode } from './codes.ts'
import type { ResultStatus } from './result.ts'

/** Languages that a program over tools may be written in; `workflow` is the short form of `name := run(…)`. */
export type ProgramLanguage = 'javascript' | 'typescript' | 'python' | 'workflow'

/** Ceilings for a program over tools; what is absent has a default, and a host may set a lower ceiling. */
export interface ProgramLimits {
  /** Calls of tools, those of the chains that it runs included. */
  readonly toolCalls?: number
  /** Steps of the chains that it runs, all together. */
  readonly chainSteps?: number
  /** How deep programs may stand in programs; 1 is a program that runs none. */
  readonly depth?: number
  /** Calls that run at a time; more wait for their turn. */
  readonly parallel?: number
  readonly wallMs?: number
  readonly cpuMs?: number
  readonly memoryBytes?: number
  /** What it may print. */
  readonly stdoutBytes?: number
}

/** One call that a program made, in the order in which it asked. */
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

/** What a program did besides its output. */
export interface ProgramReport {
  readonly language: ProgramLanguage
  /** What it printed, up to its limit. */
  readonly printed: string
  readonly truncated?: true
  readonly calls: readonly ProgramCall[]
  /** Calls that are not listed, because there were too many. */
  readonly omitted?: number
}
