import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'

/** The key that both sides share, and its name. The name is public. */
export interface SigningKey {
  readonly id: string
  readonly key: string
}

/** The parts of a request that its signature covers in addition to the key. */
export interface SignedParts {
  readonly method: string
  /** The header `Host`, as the client sent it. */
  readonly authority: string
  /** With the query. */
  readonly path: string
  /** SHA-256 of the body, as base64url. */
  readonly digest: string
  /** Milliseconds since 1970. */
  readonly created: number
  readonly nonce: string
  /** The started server that the request is meant for; `-` for one that only reads and does not know it yet. */
  readonly instance: string
}

/** A signature as its header states it. */
export interface Claim extends Pick<SignedParts, 'digest' | 'created' | 'nonce' | 'instance'> {
  readonly keyId: string
  /** HMAC-SHA256 as base64url. */
  readonly signature: string
}

/** How far the clock of a client may be from that of the server, in both directions. */
export const clockWindowMs = 60_000

/** The instance of a request that reads and is meant for no started server in particular. */
export const anyInstance = '-'

const scheme = 'Gantry-HMAC-SHA256'
const claimForm =
  /^Gantry-HMAC-SHA256 keyid="([\w.-]{1,64})", created=(\d{1,15}), nonce="([\w-]{22})", instance="([\w-]{1,32})", digest="([\w-]{43})", signature="([\w-]{43})"$/

export function digestOf(body: Uint8Array): string {
  return hash('sha256', body, 'base64url')
}

export function newNonce(): string {
  return randomBytes(16).toString('base64url')
}

/** The header `Authorization` of a request, and the signature in it, to which the response is bound. */
export function signRequest(
  key: SigningKey,
  parts: SignedParts,
): { readonly header: string; readonly signature: string } {
  const { digest, created, nonce, instance } = parts
  const signature = requestMac(key, parts)
  const fields = `keyid="${key.id}", created=${created}, nonce="${nonce}", instance="${instance}"`
  return { header: `${scheme} ${fields}, digest="${digest}", signature="${signature}"`, signature }
}

/** The claim of a header; undefined when it has another form. */
export function readClaim(header: string | undefined): Claim | undefined {
  const found = claimForm.exec(header ?? '')
  if (found === null) return undefined
  const [, keyId = '', created, nonce = '', instance = '', digest = '', signature = ''] = found
  return { keyId, created: Number(created), nonce, instance, digest, signature }
}

/** Whether the key signed these parts. */
export function isGenuine(key: SigningKey, parts: SignedParts, signature: string): boolean {
  return sameText(requestMac(key, parts), signature)
}

/** The signature of a response, or of the head of a stream of frames (`body` undefined); bound to one request. */
export function signResponse(
  { key }: SigningKey,
  request: string,
  status: number,
  body: Uint8Array | undefined,
): string {
  const content = body === undefined ? 'frames' : digestOf(body)
  return createHmac('sha256', key).update(`gantry-response-1\n${request}\n${status}\n${content}`).digest('base64url')
}

/** The tag of one frame, bound to its request and its place in the stream. */
export function frameTag({ key }: SigningKey, request: string, place: number, head: Uint8Array, payload: Uint8Array) {
  return createHmac('sha256', key)
    .update(`gantry-frame-1\n${request}\n${place}\n`)
    .update(head)
    .update(payload)
    .digest()
}

/** Compares in a time that does not depend on the content. */
export function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)]
  return left.length === right.length && timingSafeEqual(left, right)
}

function requestMac({ id, key }: SigningKey, parts: SignedParts): string {
  const { method, authority, path, digest, created, nonce, instance } = parts
  const lines = ['gantry-request-1', id, method, authority.toLowerCase(), path, digest, created, nonce, instance]
  return createHmac('sha256', key).update(lines.join('\n')).digest('base64url')
}
