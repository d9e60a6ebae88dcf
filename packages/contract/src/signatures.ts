import { ToolError } from './error.ts'

/** The headers of a signed message, as the Standard Webhooks specification names them. */
export type WebhookHeaders = {
  /** Identifies the message; every repeat has the same id, so that a receiver can drop duplicates. */
  readonly 'webhook-id': string
  /** When this message was sent, in seconds; a repeat has a new one. */
  readonly 'webhook-timestamp': string
  /** One or more of `v1,` and the base64 of an HMAC-SHA256, separated by spaces. */
  readonly 'webhook-signature': string
}

/** `unsigned`: a header is missing. `expired`: the time is too far from now. `forged`: no signature fits a key. */
export type WebhookVerdict = 'valid' | 'unsigned' | 'expired' | 'forged'

/** How old or how early a message may be, so that a recorded message cannot be sent again later. */
const defaultToleranceMs = 300_000
const shortestKey = 24
const longestKey = 64
/** Signatures read from one header; a key that is being replaced makes two. */
const mostSignatures = 10

/** Headers for one message: an HMAC-SHA256 over `id.timestamp.body`, by Web Crypto, which browsers have too. */
export async function signWebhook(
  key: Uint8Array,
  message: { readonly id: string; readonly body: string; readonly seconds: number },
): Promise<WebhookHeaders> {
  const { id, body } = message
  const timestamp = String(Math.floor(message.seconds))
  const signature = await crypto.subtle.sign('HMAC', await importKey(key, 'sign'), signedBytes(id, timestamp, body))
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${btoa(String.fromCharCode(...new Uint8Array(signature)))}`,
  }
}

/**
 * Whether a message was signed with one of the keys, and is recent. `body` is what was received, before it is parsed.
 * Web Crypto compares in constant time. The receiver drops duplicates by `webhook-id`.
 */
export async function verifyWebhook(
  keys: readonly Uint8Array[],
  message: {
    readonly headers: { readonly [name: string]: unknown }
    readonly body: string | Uint8Array
    /** The receiver's clock; `Date.now()` when absent. */
    readonly nowMs?: number
    /** 300,000 when absent. */
    readonly toleranceMs?: number
  },
): Promise<WebhookVerdict> {
  const { headers, body, nowMs = Date.now(), toleranceMs = defaultToleranceMs } = message
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') return 'unsigned'
  if (id === '') return 'unsigned'
  if (!/^\d{1,12}$/.test(timestamp) || !(Math.abs(nowMs - Number(timestamp) * 1_000) <= toleranceMs)) return 'expired'
  const signed = signedBytes(id, timestamp, body)
  const given = signatures.split(' ', mostSignatures).flatMap((text) => {
    const bytes = bytesOf(/^v1,([A-Za-z0-9+/]{43}=)$/.exec(text)?.[1])
    return bytes === undefined ? [] : [bytes]
  })
  for (const key of keys) {
    const verifying = await importKey(key, 'verify')
    for (const bytes of given) if (await crypto.subtle.verify('HMAC', verifying, bytes, signed)) return 'valid'
  }
  return 'forged'
}

/** A new key as configured, `whsec_` and base64 of 24 to 64 bytes; CONFIG_INVALID, without the text, when it is none. */
export function parseWebhookKey(text: string): Uint8Array {
  const key = bytesOf(/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text)?.[1])
  if (key !== undefined && key.length >= shortestKey && key.length <= longestKey) return key
  const words = `must be "whsec_" and the base64 of ${shortestKey} to ${longestKey} bytes`
  throw new ToolError('CONFIG_INVALID', `A key for signing callbacks ${words}.`)
}

/** The bytes of a key as receivers have it: base64 of any length, with or without `whsec_`; undefined when it is neither. */
export function decodeWebhookKey(text: string): Uint8Array | undefined {
  const key = bytesOf(text.replace(/^whsec_/, ''))
  return key === undefined || key.length === 0 ? undefined : key
}

function importKey(key: Uint8Array, use: 'sign' | 'verify') {
  // A copy, because Web Crypto does not accept shared memory.
  return crypto.subtle.importKey('raw', new Uint8Array(key), { name: 'HMAC', hash: 'SHA-256' }, false, [use])
}

function signedBytes(id: string, timestamp: string, body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const head = new TextEncoder().encode(`${id}.${timestamp}.`)
  const rest = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const whole = new Uint8Array(head.length + rest.length)
  whole.set(head)
  whole.set(rest, head.length)
  return whole
}

function bytesOf(base64: string | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (base64 === undefined) return undefined
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

const named: ReadonlySet<string> = new Set(['idempotency-key', 'last-event-id', 'range', 'if-range', 'if-none-match'])

/**
 * Whether a header, by its name in lower case, changes what a request does or which answer it gets. A signed request covers
 * each of these that it has: a proxy that adds, changes or drops one would otherwise send another request than was signed.
 */
export function isSignedHeader(name: string): boolean {
  return named.has(name) || name.startsWith('mcp-')
}
