import { signWebhook, ToolError } from '@gantry/contract'
import type { Egress, EgressResponse, EgressScope } from '@gantry/core'
import type { Sending } from './relay.ts'

/** A message for a URL, signed by Standard Webhooks. */
export interface SignedPost {
  /** Identifies the message; every repeat has the same id. */
  readonly id: string
  readonly url: URL
  readonly scope: EgressScope
  readonly tenant: string
  readonly body: string
  /** Undefined for a message without a signature. */
  readonly key: Uint8Array | undefined
}

/** Builds a message and posts it within a time limit, from the first step to the last byte of the response. */
export interface SignedPosting {
  readonly egress: Pick<Egress, 'request'>
  readonly timeoutMs: number
  /** The message; what it throws decides whether it is built again later. */
  readonly message: (signal: AbortSignal) => Promise<SignedPost>
  /** The sentence of an egress refusal. */
  readonly denied: (error: ToolError) => string
  /** The sentence for an error without a message of its own. */
  readonly failed: string
}

/** The bytes of a response that are read, so that its connection can be reused. */
const readBytes = 4_096

/**
 * A status from 200 to 299 accepts the message, 410 ends the attempts, and everything else is retried; redirects are not
 * followed. Rejects only when the signal aborts.
 */
export async function postSigned(posting: SignedPosting, signal: AbortSignal): Promise<Sending> {
  const { egress, timeoutMs, message } = posting
  const time = AbortSignal.timeout(timeoutMs)
  const either = AbortSignal.any([signal, time])
  try {
    const { id, url, scope, tenant, body, key } = await message(either)
    const seconds = Date.now() / 1_000
    const signature = key === undefined ? { 'webhook-id': id } : await signWebhook(key, { id, body, seconds })
    const response = await egress.request({
      ...scope,
      tenant,
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'gantry', ...signature },
      body,
      headersMs: timeoutMs,
      idleMs: timeoutMs,
      signal: either,
    })
    return await judge(response, url)
  } catch (error) {
    signal.throwIfAborted()
    return time.aborted ? { kind: 'again', error: `It took more than ${timeoutMs} ms.` } : failure(error, posting)
  }
}

/** Judges a response. Only its status is kept, since the caller that chose the URL may read what is kept. */
async function judge(response: EgressResponse, { origin }: URL): Promise<Sending> {
  const { status, headers } = response
  await readSome(response)
  if (status >= 200 && status <= 299) return { kind: 'sent' }
  const error = `${origin} answered ${status}`
  if (status === 410) return { kind: 'never', error }
  const afterMs = status === 429 || status === 503 ? retryAfterMs(headers.get('retry-after')) : undefined
  return { kind: 'again', error, ...(afterMs === undefined ? {} : { afterMs }) }
}

/** Reads a short body to its end; a failure is ignored, since the status decides. */
async function readSome(response: EgressResponse): Promise<void> {
  let bytes = 0
  try {
    for await (const piece of response.body) {
      bytes += piece.byteLength
      if (bytes > readBytes) break
    }
  } catch {
    // The status has arrived already.
  } finally {
    response.cancel()
  }
}

/** Seconds, or a date; undefined for anything else. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return ms > 0 ? ms : undefined
}

/** Errors that a retry cannot repair before a setting has changed. */
const lasting: readonly string[] = ['EGRESS_DENIED', 'INPUT_INVALID', 'PAYLOAD_INVALID', 'NOT_FOUND']

function failure(error: unknown, { denied, failed }: SignedPosting): Sending {
  if (!ToolError.is(error)) return { kind: 'again', error: failed }
  if (error.code === 'EGRESS_DENIED') return { kind: 'never', error: denied(error) }
  return { kind: lasting.includes(error.code) ? 'never' : 'again', error: error.message }
}
