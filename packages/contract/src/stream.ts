import type { ErrorInfo } from './error.ts'
import type { Json } from './json.ts'
import type { Result } from './result.ts'

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
