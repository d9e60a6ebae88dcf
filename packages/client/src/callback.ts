import { type Json, ToolError } from '@gantry/contract'

export type CallbackHeaders = Headers | { readonly [name: string]: string | readonly string[] | undefined }

export interface VerifyOptions {
  /** How far the time of the message may be from now; 300,000 when absent. */
  readonly toleranceMs?: number
  readonly now?: () => number
}

/**
 * The outcome in a callback, once its signature is verified with the secret (Standard Webhooks: HMAC
 * SHA-256 over id, time and body). Several secrets are for the time of a change. `body` is what came, byte for byte.
 * A message may come more than once; `webhook-id` is the same then. Throws UNAUTHENTICATED.
 */
export async function verifyCallback(
  headers: CallbackHeaders,
  body: string | Uint8Array,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<Json> {
  const { toleranceMs = 300_000, now = Date.now } = options
  const [id, time, signatures] = ['id', 'timestamp', 'signature'].map((name) => header(headers, `webhook-${name}`))
  if (id === undefined || time === undefined || signatures === undefined) throw refused('has no signature')
  if (!/^[0-9]{1,12}$/.test(time) || Math.abs(now() - Number(time) * 1_000) > toleranceMs) {
    throw refused('is too old, or from the future')
  }
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const signed = joined(new TextEncoder().encode(`${id}.${time}.`), bytes)
  const given = signatures.split(' ').flatMap((one) => (one.startsWith('v1,') ? [one.slice(3)] : []))
  const secrets = typeof secret === 'string' ? [secret] : secret
  for (const one of secrets) if (await isSigned(signed, given.slice(0, 10), one)) return parse(bytes)
  throw refused('is not signed with this secret')
}

/** The comparison is the engine's own, which takes the same time whatever the signature is. */
async function isSigned(
  signed: Uint8Array<ArrayBuffer>,
  signatures: readonly string[],
  secret: string,
): Promise<boolean> {
  const raw = decode(secret.replace(/^whsec_/, ''))
  if (raw === undefined || raw.length === 0)
    throw new ToolError('CONFIG_INVALID', 'The secret of callbacks is not base64.')
  const key = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
  for (const signature of signatures) {
    const given = decode(signature)
    if (given !== undefined && (await crypto.subtle.verify('HMAC', key, given, signed))) return true
  }
  return false
}

function header(headers: CallbackHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? []
  return typeof value === 'string' ? value : value?.[0]
}

function decode(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length)
  whole.set(first)
  whole.set(second, first.length)
  return whole
}

function parse(bytes: Uint8Array): Json {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Json
  } catch (cause) {
    throw new ToolError('PAYLOAD_INVALID', 'The callback is signed, but is not JSON.', { cause })
  }
}

function refused(why: string): ToolError {
  return new ToolError('UNAUTHENTICATED', `The callback ${why}.`)
}
