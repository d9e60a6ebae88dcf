import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type CallKind, type ChainResult, parseWebhookKey, type Result, ToolError } from '@gantry/contract'
import type { Egress, EgressAllow } from '@gantry/core'
import { callbackDenied, callbackScope, checkCallbackUrl } from '../config/callback-target.ts'
import type { LoadedConfig } from '../config/config.ts'
import { secretText } from '../config/secret-sources.ts'
import { ensureKey } from '../config/service-files.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import type { Send } from './relay.ts'
import { postSigned } from './signed-post.ts'

export interface CallbackOptions {
  /** The egress guard of every callback. */
  readonly egress: Pick<Egress, 'request'>
  /** The allowed origins at the moment; undefined allows every public address that the guard allows. */
  readonly origins: () => EgressAllow | undefined
  /** The signing key of a tenant; without one its callbacks are unsigned. */
  readonly keyOf: (tenant: string, signal: AbortSignal) => Promise<Uint8Array | undefined>
  readonly views: Pick<CallViews, 'outcomes'>
  /** The timeout of one attempt, from the first step to the last byte; 10 s. */
  readonly timeoutMs?: number
  /** The limit of one message; a result beyond it is left out, and its receiver fetches it. 4 MiB. */
  readonly bodyBytes?: number
}

/** The body of a callback. */
interface CallbackBody {
  readonly callId: string
  readonly kind: CallKind
  readonly tool: string
  readonly state: string
  /** Absent when it is too large to be sent. */
  readonly result?: Outcome
}

type Outcome = Result | ChainResult

/** For reads that other senders share: the abort of one must not end them. */
const never = new AbortController().signal
/**
 * Posts the outcome of a call to the URL of its caller, signed by Standard Webhooks. A status from 200 to 299 accepts
 * it, 410 ends the attempts, and everything else is retried; redirects are not followed.
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
  return (item, signal) =>
    postSigned(
      {
        egress,
        timeoutMs,
        async message(either) {
          const url = checkCallbackUrl(item.target)
          const { tenant } = item
          const body = await bodyOf(item, outcomes.add, options)
          const key = await options.keyOf(tenant, either)
          return { id: `${item.callId}_${item.id}`, url, scope: callbackScope(url, origins()), tenant, body, key }
        },
        denied: (error) => deniedMessage(item, error),
        failed: 'The callback could not be sent.',
      },
      signal,
    )
}

function deniedMessage({ target }: OutboxItem, error: ToolError): string {
  const url = URL.parse(target)
  return url === null ? error.message : callbackDenied(url, error).message
}

async function bodyOf(
  { callId, call }: OutboxItem,
  outcome: (callId: string) => Promise<Outcome | undefined>,
  { bodyBytes = 4_194_304 }: CallbackOptions,
): Promise<string> {
  if (call === undefined) throw new ToolError('NOT_FOUND', 'The call is no longer stored.')
  const result = await outcome(callId)
  if (result === undefined) throw new ToolError('STORE_UNAVAILABLE', 'The result of the call could not be read.')
  const view: CallbackBody = { callId, ...call }
  const whole = JSON.stringify({ ...view, result })
  return Buffer.byteLength(whole) > bodyBytes ? JSON.stringify(view) : whole
}

/**
 * The signing keys of callbacks: the secret that the configuration names, or a key of the service's own, created when
 * it is first needed and stored next to its API key. Receivers need it as `whsec_` and base64, as in Standard Webhooks.
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
  // A folder that cannot be written fails the start, not the first callback.
  if (latest().service.callbackSecret === undefined) await key()
  return key
}

const keyForm = /^whsec_[A-Za-z0-9+/]{43}=$/

function newKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
