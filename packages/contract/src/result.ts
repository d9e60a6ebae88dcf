import type { ProgramReport } from './code.ts'
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

/** A file kept outside the result. */
export interface ArtifactRef {
  readonly id: string
  readonly name: string
  readonly mimeType: string
  readonly bytes: number
  /** `sha256:` and the hex digits of the content. */
  readonly digest: string
}

/** A typed write-back to the caller's world. */
export type Effect =
  | { readonly kind: 'file'; readonly artifact: ArtifactRef }
  | { readonly kind: 'tool'; readonly tool: string }
  | { readonly kind: 'message'; readonly message: Json }

/** What the run cost, as measured. */
export interface Usage {
  readonly wallMs: number
  readonly cpuMs?: number
  readonly memoryPeakBytes?: number
  /** Which limits held, and what held them. */
  readonly enforced: { readonly [limit: string]: string }
  /** The limit that ended the run. */
  readonly hit?: string
}

/** The tool that really ran. */
export interface ResultTool {
  readonly id: string
  readonly version: string
}

/** The one outcome of a call, whatever it was. */
export interface Result {
  readonly callId: string
  /** Absent when no tool was found. */
  readonly tool?: ResultTool
  /** Absent when the call ended before a backend was chosen. */
  readonly backend?: { readonly kind: string; readonly name: string }
  readonly runtime?: { readonly kind: string; readonly isolation: string }
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

/** How a stream ends: once, with the whole Result. */
export type StreamEnd =
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'error'; readonly error: ErrorInfo; readonly result: Result }

/** One event of a call; ids increase within it, so a reader can resume after any. */
export type StreamEvent = (Report | StreamEnd) & { readonly id: number; readonly callId: string }
