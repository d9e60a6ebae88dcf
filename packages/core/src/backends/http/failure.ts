import { type ErrorDetails, type Json, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { EgressResponse } from '../../egress/egress.ts'
import { parseAnswer } from '../../json/parse.ts'
import { within } from '../../resilience/abort.ts'

import { decodeText, type Excerpt, isJson, mediaOf } from './media.ts'

/** Limits for the body of a failure: bytes and time to read, characters in details and in the message. */
const limits = { readBytes: 16_384, readMs: 2_000, shown: 1_024, message: 300 }
const longestRetryMs = 86_400_000

/** Statuses after which the same request may succeed. */
const transient: ReadonlySet<number> = new Set([408, 425, 500, 502, 503, 504])

/**
 * The error for a status outside 2xx. A server that answers has received the request, so no status, not even 503, means
 * that the call did not start. Refusals (401, 403, 429) and a failed GET or HEAD have effect none, unless they follow a
 * redirect of a request that may have had a side effect.
 */
export async function statusFailure(
  name: string,
  method: string,
  response: EgressResponse,
  excerpt: Excerpt,
  /** The names of the secrets in the request, for a refusal of its credentials. */
  secrets: readonly string[] = [],
): Promise<ToolError> {
  const { status, headers, changed } = response
  const refused = { effect: changed ? 'possible' : 'none', retryable: status === 429 && !changed } as const
  const { body, whole } = await beginningOf(response)
  const explained = explanation(body, mediaOf(response).type)
  const reason = explained === undefined ? '' : `: ${excerpt(explained, limits.message, whole)}`
  const retryAfterMs = retryAfter(headers.get('retry-after'), Date.now())
  const details: ErrorDetails = {
    status,
    ...(body.length === 0 ? {} : { body: excerpt(body, limits.shown, whole) }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
  if (status === 429)
    return new ToolError('RATE_LIMITED', `${name} answered 429, too many requests${reason}`, { details, ...refused })
  if (status === 401 || status === 403) {
    return new ToolError('DENIED', `${name} answered ${status} and refuses the call${reason}`, {
      details: secrets.length === 0 ? details : { ...details, secrets },
      stage: 'execute',
      ...refused,
    })
  }
  const what = status < 400 ? `answered ${status}, a redirect that was not followed` : `answered ${status}`
  return new ToolError('BACKEND_FAILED', `${name} ${what}${reason}`, {
    details,
    retryable: transient.has(status),
    effect: !changed && (method === 'GET' || method === 'HEAD') ? 'none' : 'possible',
  })
}

/** Parses Retry-After, seconds or a date, into milliseconds; undefined when it is absent or invalid. */
export function retryAfter(header: string | null, now: number): number | undefined {
  const text = header?.trim().slice(0, 64) ?? ''
  const ms = /^-?\d+$/.test(text) ? Number(text) * 1_000 : / GMT$/.test(text) ? Date.parse(text) - now : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, ms), longestRetryMs)
}

/** Reads the start of the body within a time limit, so that a slow body does not turn the failure into a timeout. */
async function beginningOf(response: EgressResponse): Promise<{ readonly body: string; readonly whole: boolean }> {
  const chunks: Uint8Array[] = []
  const reading = read(response, chunks)
  let whole = false
  try {
    whole = await within(limits.readMs, reading, () => false)
  } finally {
    response.cancel()
  }
  const bytes = Buffer.concat(chunks).subarray(0, limits.readBytes)
  return { body: decodeText(bytes, mediaOf(response).charset), whole }
}

/** Returns whether the body was read to its end. */
async function read(response: EgressResponse, chunks: Uint8Array[]): Promise<boolean> {
  let bytes = 0
  try {
    for await (const chunk of response.body) {
      chunks.push(chunk)
      bytes += chunk.byteLength
      if (bytes >= limits.readBytes) return false
    }
    return true
  } catch {
    // The status is the failure; a broken body only shortens the explanation.
    return false
  }
}

/** The explanation in the body: problem details, common error members, or plain text. */
function explanation(body: string, type: string | undefined): string | undefined {
  if (type === 'text/plain') return body.trim() === '' ? undefined : body
  if (!isJson(type)) return undefined
  try {
    return fromJson(parseAnswer(body))
  } catch {
    return undefined
  }
}

function fromJson(body: Json): string | undefined {
  if (!isObject(body)) return undefined
  const { title, detail, message, error } = body
  const problem = [title, detail].filter((part) => typeof part === 'string')
  if (problem.length > 0) return problem.join(': ')
  const inner = isObject(error) ? error.message : error
  return [message, inner].find((part) => typeof part === 'string')
}
