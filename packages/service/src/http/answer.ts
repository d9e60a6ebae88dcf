import type { Readable } from 'node:stream'
import { type CodeInfo, codes, type ErrorInfo, type Json, type StreamEvent, ToolError } from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import type { ErrorBody } from './service.ts'

export type AnswerHeaders = { readonly [name: string]: string }

/** What a request is answered with. */
export type Answer = { readonly status: number; readonly headers?: AnswerHeaders } & (
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'content'; readonly content: Readable }
  | { readonly kind: 'events'; readonly events: AsyncIterable<StreamEvent> }
  | { readonly kind: 'empty' }
  /** Written already, by whoever worked on it. */
  | { readonly kind: 'sent' }
)

export function json(body: unknown, status = 200, headers: AnswerHeaders = {}): Answer {
  return { kind: 'json', status, headers, body }
}

/** On every answer: nothing of ours is kept, framed, sniffed or run by a browser. */
export const safeHeaders: AnswerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

const longestMessage = 10_000

/** The answer that an error is, in the one shape; the status is the code's own unless HTTP has a word for it. */
export function problem(error: ToolError, status?: number, headers: AnswerHeaders = {}): Answer {
  const row: CodeInfo = codes[error.code]
  const body: ErrorBody = { error: infoOf(error) }
  return json(body, status ?? row.http, { ...hints(error), ...headers })
}

/** The ToolError that something thrown is; what only looks like one, or is none, is a fault of ours. */
export function asToolError(thrown: unknown): ToolError {
  if (ToolError.is(thrown) && Object.hasOwn(codes, thrown.code)) return thrown
  const { code, statusCode } = (thrown ?? {}) as { readonly code?: unknown; readonly statusCode?: unknown }
  // The router and its parts refuse requests that never reach a route.
  const refused = typeof code === 'string' && code.startsWith('FST_') && Number(statusCode) < 500
  if (refused) return new ToolError('PAYLOAD_INVALID', 'The request is malformed.', { cause: thrown })
  return new ToolError('INTERNAL', 'The request could not be handled.', { cause: thrown })
}

/** Causes stay here: they are for the log of the service, not for its callers. */
function infoOf({ code, message, stage, retryable, effect, details }: ToolError): ErrorInfo {
  return { code, message: message.slice(0, longestMessage), stage, retryable, effect, details: plain(details ?? {}) }
}

/** Details are open to anything, but only JSON leaves. */
function plain(details: object): { [key: string]: Json } {
  try {
    return copyJson(details, { convert: true, dropped: { count: 0 } }) as { [key: string]: Json }
  } catch {
    return {}
  }
}

function hints({ code, details }: ToolError): AnswerHeaders {
  const row: CodeInfo = codes[code]
  if (row.http === 401) return { 'www-authenticate': 'Bearer realm="gantry"' }
  if (row.http !== 429 && row.http !== 503) return {}
  const ms = details?.retryAfterMs
  return { 'retry-after': retryAfterText(typeof ms === 'number' ? ms : 0) }
}

/** Whole seconds, at least one. */
export function retryAfterText(ms: number): string {
  return String(ms > 0 && Number.isFinite(ms) ? Math.ceil(ms / 1_000) : 1)
}
