import { type CodeInfo, codes, type ErrorInfo, type Json, ToolError } from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import { type Answer, type AnswerHeaders, json } from './answer.ts'
import type { ErrorBody } from './service.ts'

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
