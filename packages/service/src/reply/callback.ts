import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type CallKind, type ChainResult, type Result, ToolError } from '@gantry/contract'
import type { Egress, EgressAllow, EgressResponse } from '@gantry/core'
import { callbackDenied, callbackScope, checkCallbackUrl } from '../config/callback-target.ts'
import type { LoadedConfig } from '../config/config.ts'
import { ensureKey } from '../config/key-file.ts'
import { secretText } from '../config/secret-text.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import type { Send, Sending } from './relay.ts'
import { parseWebhookKey, signWebhook } from './signature.ts'

export interface CallbackOptions {
  /** The guard that every callback goes through. */
  readonly egress: Pick<Egress, 'request'>
  /** Where callbacks may go, as it is now; undefined for every public address that the guard allows. */
  readonly origins: () => EgressAllow | undefined
  /** The key that a tenant's callbacks are signed with; without one they go unsigned. */
  readonly keyOf: (tenant: string, signal: AbortSignal) => Promise<Uint8Array | undefined>
  readonly views: Pick<CallViews, 'outcomes'>
  /** Time for one try, from the first step to the last byte; 10 s. */
  readonly timeoutMs?: number
  /** Bytes of one message; a result that does not fit is left out, and its receiver asks for it. 4 MiB. */
  readonly bodyBytes?: number
}

/** What a receiver gets. */
interface CallbackBody {
  readonly callId: string
  readonly kind: CallKind
  readonly tool: string
  readonly state: string
  /** Absent when it is too large to be sent. */
  readonly result?: Outcome
}

type Outcome = Result | ChainResult

/** Of reading what others wait for too. */
const never = new AbortController().signal
/** What is read of a receiver's answer, so that its connection can be used again. */
const readBytes = 4_096

/**
 * Posts the outcome of a call to the URL that its caller named, signed as Standard Webhooks asks for. A status from 200 to
 * 299 takes it, 410 wants no more, and everything else is tried again; redirects are not followed.
 */
export function createCallbackSender(options: CallbackOptions): Send {
  const { egress, origins, views, timeoutMs = 10_000 } = options
  const outcomes = createBatch<string, Outcome | undefined>(
    async (callIds) => {
      const found = await views.outcomes(callIds, never)
      return callIds.map((callId) => found.get(callId))
    },
    { most: 16 },
  )
  return async (item, signal) => {
    const time = AbortSignal.timeout(timeoutMs)
    const either = AbortSignal.any([signal, time])
    try {
      const url = checkCallbackUrl(item.target)
      const body = await bodyOf(item, outcomes.add, options)
      const response = await egress.request({
        ...callbackScope(url, origins()),
        tenant: item.tenant,
        url,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'gantry',
          ...(await signedBy(item, body, options, either)),
        },
        body,
        headersMs: timeoutMs,
        idleMs: timeoutMs,
        signal: either,
      })
      return await judge(response, url)
    } catch (error) {
      signal.throwIfAborted()
      return time.aborted ? { kind: 'again', error: `It took more than ${timeoutMs} ms.` } : failure(error, item)
    }
  }
}

async function bodyOf(
  { callId, call }: OutboxItem,
  outcome: (callId: string) => Promise<Outcome | undefined>,
  { bodyBytes = 4_194_304 }: CallbackOptions,
): Promise<string> {
  if (call === undefined) throw new ToolError('NOT_FOUND', 'The call is no longer kept.')
  const result = await outcome(callId)
  if (result === undefined) throw new ToolError('STORE_UNAVAILABLE', 'The result of the call could not be read.')
  const view: CallbackBody = { callId, ...call }
  const whole = JSON.stringify({ ...view, result })
  return Buffer.byteLength(whole) > bodyBytes ? JSON.stringify(view) : whole
}

async function signedBy(
  { id, callId, tenant }: OutboxItem,
  body: string,
  { keyOf }: CallbackOptions,
  signal: AbortSignal,
) {
  const message = { id: `${callId}_${id}`, body, seconds: Date.now() / 1_000 }
  const key = await keyOf(tenant, signal)
  return key === undefined ? { 'webhook-id': message.id } : signWebhook(key, message)
}

/** What a response means. Nothing of it is kept but its status, since whoever chose the URL may read what is kept. */
async function judge(response: EgressResponse, { origin }: URL): Promise<Sending> {
  const { status, headers } = response
  await readSome(response)
  if (status >= 200 && status <= 299) return { kind: 'sent' }
  const error = `${origin} answered ${status}`
  if (status === 410) return { kind: 'never', error }
  const afterMs = status === 429 || status === 503 ? retryAfterMs(headers.get('retry-after')) : undefined
  return { kind: 'again', error, ...(afterMs === undefined ? {} : { afterMs }) }
}

/** Reads a short body to its end; one that cannot be read does not matter, since the status says enough. */
async function readSome(response: EgressResponse): Promise<void> {
  let bytes = 0
  try {
    for await (const piece of response.body) {
      bytes += piece.byteLength
      if (bytes > readBytes) break
    }
  } catch {
    // The status was there before.
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

/** Faults that another try cannot mend before somebody has changed something. */
const lasting: readonly string[] = ['EGRESS_DENIED', 'INPUT_INVALID', 'PAYLOAD_INVALID', 'NOT_FOUND']

function failure(error: unknown, { target }: OutboxItem): Sending {
  if (!ToolError.is(error)) return { kind: 'again', error: 'It could not be sent.' }
  const url = URL.parse(target)
  if (error.code === 'EGRESS_DENIED' && url !== null)
    return { kind: 'never', error: callbackDenied(url, error).message }
  return { kind: lasting.includes(error.code) ? 'never' : 'again', error: error.message }
}

/**
 * What callbacks are signed with: the secret that the configuration names now, or a key of the service's own, made when
 * it is first needed and kept beside its API key. Receivers need it: `whsec_` and base64, as Standard Webhooks writes it.
 */
export async function callbackKeys(
  latest: () => LoadedConfig,
): Promise<(tenant: string) => Promise<Uint8Array | undefined>> {
  let own: Promise<Uint8Array> | undefined
  const key = async (): Promise<Uint8Array> => {
    const { options, service } = latest()
    const { callbackSecret, data } = service
    if (callbackSecret !== undefined) {
      return parseWebhookKey(await secretText(callbackSecret, options.secrets, 'signs callbacks'))
    }
    own ??= ensureKey(join(data, 'callback-key'), keyForm, newKey).then((kept) => parseWebhookKey(kept.key))
    return own
  }
  // A folder that cannot be written to is found out at the start, not with the first callback.
  if (latest().service.callbackSecret === undefined) await key()
  return key
}

const keyForm = /^whsec_[A-Za-z0-9+/]{43}=$/

function newKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
