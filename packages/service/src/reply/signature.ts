import { ToolError } from '@gantry/contract'

/** The headers of a signed message, as the Standard Webhooks specification names them. */
export type WebhookHeaders = {
  /** Names the message; the same at every repeat, so that a receiver can tell one. */
  readonly 'webhook-id': string
  /** When this message was sent, in seconds; a repeat has a new one. */
  readonly 'webhook-timestamp': string
  /** One or more of `v1,` and the base64 of an HMAC-SHA256, apart by spaces. */
  readonly 'webhook-signature': string
}

/** How old or how early a message may be, so that nobody can send an old one again. */
const toleranceSeconds = 300
const shortestKey = 24
const longestKey = 64
/** Signatures looked at in one header; a key that is being replaced makes two. */
const mostSignatures = 8

/** Headers for one message: an HMAC-SHA256 over `id.timestamp.body`. Only what the platform has is used, browsers too. */
export async function signWebhook(
  key: Uint8Array,
  message: { readonly id: string; readonly body: string; readonly seconds: number },
): Promise<WebhookHeaders> {
  const { id, body } = message
  const timestamp = String(Math.floor(message.seconds))
  const signature = await crypto.subtle.sign('HMAC', await importKey(key, 'sign'), signed(id, timestamp, body))
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${btoa(String.fromCharCode(...new Uint8Array(signature)))}`,
  }
}

/**
 * Whether a message is from whoever has the key, and of now. The body is the text as it came, before it is parsed. Time
 * does not tell how much of a signature fits. Whether the message came before is for the receiver to see, by its id.
 */
export async function verifyWebhook(
  key: Uint8Array,
  message: {
    readonly headers: { readonly [name: string]: unknown }
    readonly body: string
    /** The receiver's clock; the present unless told. */
    readonly seconds?: number
  },
): Promise<boolean> {
  const { headers, body, seconds = Date.now() / 1_000 } = message
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') return false
  if (id === '' || !/^\d{1,12}$/.test(timestamp)) return false
  if (!(Math.abs(seconds - Number(timestamp)) <= toleranceSeconds)) return false
  const verifying = await importKey(key, 'verify')
  for (const text of signatures.split(' ', mostSignatures)) {
    const signature = bytesOf(/^v1,([A-Za-z0-9+/]{43}=)$/.exec(text)?.[1])
    if (signature === undefined) continue
    if (await crypto.subtle.verify('HMAC', verifying, signature, signed(id, timestamp, body))) return true
  }
  return false
}

/** The key in its usual spelling, `whsec_` and base64 of 24 to 64 bytes; CONFIG_INVALID, without the text, when it is none. */
export function parseWebhookKey(text: string): Uint8Array {
  const key = bytesOf(/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text)?.[1])
  if (key !== undefined && key.length >= shortestKey && key.length <= longestKey) return key
  const words = `must be "whsec_" and the base64 of ${shortestKey} to ${longestKey} bytes`
  throw new ToolError('CONFIG_INVALID', `A key for signing callbacks ${words}.`)
}

function importKey(key: Uint8Array, use: 'sign' | 'verify') {
  // A copy, because the platform takes no memory that is shared with others.
  return crypto.subtle.importKey('raw', new Uint8Array(key), { name: 'HMAC', hash: 'SHA-256' }, false, [use])
}

function signed(id: string, timestamp: string, body: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${id}.${timestamp}.${body}`)
}

function bytesOf(base64: string | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (base64 === undefined) return undefined
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
