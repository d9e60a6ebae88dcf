import { decodeWebhookKey, type Json, ToolError, verifyWebhook, type WebhookVerdict } from '@gantry/contract'

export type CallbackHeaders = Headers | { readonly [name: string]: string | readonly string[] | undefined }

export interface VerifyOptions {
  /** How far the time of the message may be from now; 300,000 when absent. */
  readonly toleranceMs?: number
  readonly now?: () => number
}

/**
 * The outcome in a callback, once its signature is verified with the secret (Standard Webhooks: HMAC
 * SHA-256 over id, time and body). Several secrets allow rotation. `body` is the received body, byte for byte.
 * A message may be delivered more than once, with the same `webhook-id`. Throws UNAUTHENTICATED.
 */
export async function verifyCallback(
  headers: CallbackHeaders,
  body: string | Uint8Array,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<Json> {
  const { toleranceMs = 300_000, now = Date.now } = options
  const signed: { [name: string]: string | undefined } = {}
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) signed[name] = header(headers, name)
  const keys = (typeof secret === 'string' ? [secret] : secret).map(keyOf)
  const verdict = await verifyWebhook(keys, { headers: signed, body, nowMs: now(), toleranceMs })
  if (verdict === 'valid') return parse(body)
  throw new ToolError('UNAUTHENTICATED', `The callback ${faults[verdict]}.`)
}

const faults: { readonly [verdict in Exclude<WebhookVerdict, 'valid'>]: string } = {
  unsigned: 'has no signature',
  expired: 'is too old, or from the future',
  forged: 'is not signed with this secret',
}

function keyOf(secret: string): Uint8Array {
  const key = decodeWebhookKey(secret)
  if (key === undefined) throw new ToolError('CONFIG_INVALID', 'The secret of callbacks is not base64.')
  return key
}

function header(headers: CallbackHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? []
  return typeof value === 'string' ? value : value?.[0]
}

function parse(body: string | Uint8Array): Json {
  try {
    const text = typeof body === 'string' ? body : new TextDecoder('utf-8', { fatal: true }).decode(body)
    return JSON.parse(text)
  } catch (cause) {
    throw new ToolError('PAYLOAD_INVALID', 'The callback is signed, but is not JSON.', { cause })
  }
}
