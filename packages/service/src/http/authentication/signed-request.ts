import { generateKeyPairSync, hash, type KeyObject, timingSafeEqual, verify } from 'node:crypto'
import { isSignedHeader } from '@gantry/contract'
import { type ResponseWatch, unlessUnresponsive } from '../../observe/dependency-health.ts'
import { createBatch } from '../../storage/batch.ts'
import type { Nonce, NonceRecords } from '../../storage/keys/api-keys.ts'
import { type Authenticator, isSigned, lookupUnavailable, type Presented, unauthenticated } from './authenticator.ts'
import type { LiveKeys } from './live-keys.ts'

/** The parsed signature of a request. */
interface Signed {
  /** The parameters as in the header, and in the signature base. */
  readonly params: string
  /** Covered headers other than the digest, in the order of the signature base. */
  readonly headers: readonly string[]
  readonly keyId: string
  readonly nonce: string
  /** In seconds since 1970. */
  readonly created: number
  readonly signature: Buffer
  readonly digest: Buffer
}

/** The validity of a request, and the tolerated clock skew of its sender. */
const windowMs = 5 * 60_000
const aheadMs = 60_000

const inputForm =
  /^([a-z][a-z0-9_-]{0,31})=(\("@method" "@authority" "@path" "@query" "content-digest"((?: "[a-z][a-z0-9-]{0,63}"){0,16})\)((?:;[a-z]{1,10}=(?:"[\w.-]{1,100}"|[0-9]{1,12})){4}))$/
const signatureForm = /^([a-z][a-z0-9_-]{0,31})=:([A-Za-z0-9+/]{86}==):$/
const digestForm = /^sha-256=:([A-Za-z0-9+/]{43}=):$/
const valueForms = {
  created: /^[0-9]{1,12}$/,
  keyid: /^"([a-z0-9]{12})"$/,
  nonce: /^"([\w-]{16,64})"$/,
  alg: /^"(ed25519)"$/,
} as const

interface SignedRequestOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Ends the check of nonces when the database stops answering; absent where it is part of this process. */
  readonly health?: ResponseWatch | undefined
}

/**
 * Verifies requests that are signed by RFC 9421, in the one form that is accepted: Ed25519 over method, authority, path,
 * query, the SHA-256 of the body and every header that changes what the request does, with the time and a nonce that
 * serves once. The body itself is compared by the handler that reads it. A request with a signature and another
 * credential is refused.
 */
export function signedRequestAuthenticator(
  keys: LiveKeys,
  nonces: Pick<NonceRecords, 'use'>,
  { now = Date.now, health }: SignedRequestOptions = {},
): Authenticator {
  const using = createBatch(nonces.use)
  const use = (nonce: Nonce): Promise<boolean> =>
    health === undefined
      ? using.add(nonce)
      : unlessUnresponsive(health, 'database', lookupUnavailable, () => using.add(nonce))
  const unusedKey = generateKeyPairSync('ed25519').publicKey
  return {
    credential: 'signature',
    async authenticate(presented) {
      const { headers } = presented
      if (!isSigned(presented)) return undefined
      const signed = headers.authorization === undefined ? readSigned(presented) : undefined
      const again = presented.again === true
      if (signed === undefined || !(again || isTimely(signed.created * 1_000, now()))) throw unauthenticated()
      const key = await keys.find(signed.keyId)
      const genuine = isGenuine(presented, signed, key?.publicKey ?? unusedKey)
      if (!genuine || key?.publicKey === undefined) throw unauthenticated()
      // Only the owner of the key can use up a nonce.
      if (!again && !(await use({ keyId: key.id, nonce: signed.nonce }))) throw unauthenticated()
      keys.used(key.id)
      return { ...key.known, bodyDigest: signed.digest }
    },
  }
}

/** Whether a body has the signed digest. */
export function isBody(bytes: Uint8Array, digest: Uint8Array): boolean {
  return timingSafeEqual(hash('sha256', bytes, 'buffer'), digest)
}

function isTimely(created: number, now: number): boolean {
  return created >= now - windowMs && created <= now + aheadMs
}

function isGenuine(presented: Presented, { params, headers: covered, signature }: Signed, key: KeyObject): boolean {
  const { method, path, headers } = presented
  const [target = '', query] = splitOnce(path, '?')
  const lines = [
    `"@method": ${method}`,
    `"@authority": ${headers.host?.toLowerCase()}`,
    `"@path": ${target}`,
    `"@query": ?${query ?? ''}`,
    `"content-digest": ${headers['content-digest']}`,
    ...covered.map((name) => `"${name}": ${headers[name]}`),
    `"@signature-params": ${params}`,
  ]
  return verify(null, Buffer.from(lines.join('\n'), 'latin1'), key, signature)
}

function readSigned({ headers }: Presented): Signed | undefined {
  const [, label, params = '', names = '', listed = ''] = inputForm.exec(String(headers['signature-input'])) ?? []
  const [, same, signature = ''] = signatureForm.exec(String(headers.signature)) ?? []
  const [, digest] = digestForm.exec(String(headers['content-digest'])) ?? []
  if (label === undefined || label !== same || digest === undefined) return undefined
  const covered = Array.from(names.matchAll(/[a-z0-9-]+/g), ([name]) => name)
  if (!coversAll(headers, covered)) return undefined
  const values = new Map(
    listed
      .slice(1)
      .split(';')
      .map((one): readonly [string, string | undefined] => {
        const [name, value] = splitOnce(one, '=')
        return [name, value]
      }),
  )
  const [created, keyId, nonce, alg] = (['created', 'keyid', 'nonce', 'alg'] as const).map((name) => {
    const [whole, inside] = valueForms[name].exec(values.get(name) ?? '') ?? []
    return inside ?? whole
  })
  if (created === undefined || keyId === undefined || nonce === undefined || alg === undefined) return undefined
  return {
    params,
    headers: covered,
    keyId,
    nonce,
    created: Number(created),
    signature: Buffer.from(signature, 'base64'),
    digest: Buffer.from(digest, 'base64'),
  }
}

/** Whether each covered header occurs once in the list, and each header that must be covered is. */
function coversAll(headers: Presented['headers'], covered: readonly string[]): boolean {
  const names = new Set(covered)
  return (
    names.size === covered.length &&
    covered.every((name) => Object.hasOwn(headers, name)) &&
    Object.keys(headers).every((name) => names.has(name) || !isSignedHeader(name))
  )
}

function splitOnce(text: string, separator: string): readonly [string, string?] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}
