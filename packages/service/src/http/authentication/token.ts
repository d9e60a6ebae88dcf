import { hash } from 'node:crypto'
import { type Identity, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { JWTVerifyGetKey } from 'jose'
import type { ClaimRules, IssuerKeys, TokenIssuer } from '../../config/authentication-settings.ts'
import { type Authenticator, bearerOf, createExpiring, type Known, unauthenticated } from './authenticator.ts'

export interface TokenOptions {
  readonly now?: () => number
  /** Called after every fetch of the keys of an issuer; `fault` is the reason when it failed. */
  readonly onKeysFetched?: (issuer: TokenIssuer, fault: string | undefined) => void
}

const form = /^[\w-]+\.[\w-]+\.[\w-]*$/
const types: readonly unknown[] = [undefined, 'jwt', 'at+jwt', 'application/jwt', 'application/at+jwt']
/** The time for which a verified token is cached. */
const keptMs = 30_000
const mostKept = 10_000

/**
 * Authenticates JSON Web Tokens of the configured issuers: signed with a fixed algorithm by a key of that issuer, for
 * this audience, valid now, and with an expiry. Nothing in the header of a token decides how it is verified.
 */
export function tokenAuthenticator(
  issuers: readonly TokenIssuer[],
  { now = Date.now, onKeysFetched = () => undefined }: TokenOptions = {},
): Authenticator {
  const kept = createExpiring<Known>(mostKept, now)
  const keysOf = (issuer: TokenIssuer): Promise<JWTVerifyGetKey> =>
    issuerKeys(issuer.keys, { now, onFetched: (fault) => onKeysFetched(issuer, fault) })
  const trusted = new Map(issuers.map((issuer) => [issuer.issuer, { issuer, keys: lazily(() => keysOf(issuer)) }]))

  const check = async (token: string): Promise<{ readonly known: Known; readonly leftMs: number }> => {
    const { decodeJwt, jwtVerify } = await import('jose')
    const found = trusted.get(String(decodeJwt(token).iss))
    if (found === undefined) throw unauthenticated()
    const { issuer, audience, algorithms, leewaySeconds } = found.issuer
    const { payload, protectedHeader } = await jwtVerify(token, await found.keys(), {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      clockTolerance: leewaySeconds,
      requiredClaims: ['exp'],
      currentDate: new Date(now()),
    })
    const { exp = 0, iat } = payload
    const early = iat !== undefined && iat > now() / 1_000 + leewaySeconds
    if (early || !types.includes(protectedHeader.typ?.toLowerCase())) throw unauthenticated()
    const identity = identityOf(payload, found.issuer)
    if (identity === undefined) throw unauthenticated()
    return { known: { identity }, leftMs: (exp + leewaySeconds) * 1_000 - now() }
  }
  return {
    credential: 'bearer',
    async authenticate(presented) {
      const token = bearerOf(presented)
      if (token === undefined || !form.test(token)) return undefined
      const name = hash('sha256', token, 'base64url')
      const before = kept.get(name)
      if (before !== undefined) return before
      try {
        const { known, leftMs } = await check(token)
        kept.set(name, known, Math.min(keptMs, leftMs))
        return known
      } catch (error) {
        throw ToolError.is(error) ? error : unauthenticated(error)
      }
    },
  }
}

/** Creates the value at its first use. */
function lazily(make: () => Promise<JWTVerifyGetKey>): () => Promise<JWTVerifyGetKey> {
  let made: Promise<JWTVerifyGetKey> | undefined
  return () => {
    made ??= make()
    return made
  }
}

type Claims = { readonly [claim: string]: unknown }

/** Invisible or misleading characters: also blank letters, and spaces other than single ones between words. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{DI}\u2800\u{1d159}]|(?! )\p{Z}|^ | {2}| $/u
const wordLength = /^.{1,200}$/su
const most = 500

/** Whether the text is safe for a log line and a column, cannot be confused with another one, and is not too long. */
export function isWord(text: string): boolean {
  return wordLength.test(text) && !unseen.test(text) && text === text.normalize('NFC')
}

/** The identity of a token; undefined when a claim is missing or not allowed. */
function identityOf(claims: Claims, rules: ClaimRules): Identity | undefined {
  const principal = textOf(claimOf(claims, rules.claims.principal))
  const tenant = tenantOf(claims, rules)
  const roles = textsOf(claims, rules.claims.roles)
  const permissions = textsOf(claims, rules.claims.permissions)
  if (principal === undefined || tenant === undefined || roles === undefined || permissions === undefined) {
    return undefined
  }
  const grants = { principal, tenant, permissions: rules.grants }
  const granted = permissions.filter((permission) => holds(grants, permission))
  return { principal: `${rules.name}:${principal}`, tenant, permissions: granted, roles }
}

function tenantOf(claims: Claims, { claims: { tenant }, tenant: fixed, tenants }: ClaimRules): string | undefined {
  if (tenant === undefined) return fixed
  const claimed = textOf(claimOf(claims, tenant))
  // A star means all tenants elsewhere, so it cannot name one.
  if (claimed === undefined || claimed === '*') return undefined
  return tenants === undefined || tenants.includes(claimed) ? claimed : undefined
}

/** A list, or a text separated by spaces, as `scope` is; undefined when there is no such claim. */
function textsOf(claims: Claims, path: string | undefined): readonly string[] | undefined {
  const value = path === undefined ? undefined : claimOf(claims, path)
  if (value === undefined || value === null) return []
  const list = typeof value === 'string' ? value.split(' ').filter((one) => one !== '') : value
  if (!Array.isArray(list) || list.length > most) return undefined
  const texts = list.map(textOf)
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && isWord(value) ? value : undefined
}

/** Claims may be named by URLs, so only a path that begins with a slash is a pointer. */
function claimOf(claims: Claims, path: string): unknown {
  if (!path.startsWith('/')) return Object.hasOwn(claims, path) ? claims[path] : undefined
  let value: unknown = claims
  for (const segment of path.slice(1).split('/')) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = Object.getOwnPropertyDescriptor(value, key)?.value
  }
  return value
}

interface IssuerKeysOptions {
  readonly now: () => number
  /** Called after every fetch; `fault` is the reason when it failed. */
  readonly onFetched: (fault: string | undefined) => void
}

const mostBytes = 262_144
const timeoutDuration = 5_000
/** The pause after a failed fetch. */
const restMs = 5_000

/**
 * The keys of an issuer, by their ids. They come only from the configured source, whatever a token names: from a URL
 * they are fetched when needed, cached for ten minutes, and fetched again for an unknown id at most every half a
 * minute. Rejects with STORE_UNAVAILABLE when they cannot be fetched, or the response is no key set.
 */
async function issuerKeys(source: IssuerKeys, { now, onFetched }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await import('jose')
  if ('set' in source) return createLocalJWKSet({ keys: [...source.set.keys] })
  let restUntil = 0
  const get = async (url: string, options: RequestInit): Promise<Response> => {
    const restLeft = restUntil - now()
    // A clock that was set back must not make the pause longer.
    if (restLeft > 0 && restLeft <= restMs) throw unreachable()
    try {
      const text = await read(url, options)
      createLocalJWKSet(parsed(text))
      onFetched(undefined)
      return new Response(text, { status: 200 })
    } catch (cause) {
      restUntil = now() + restMs
      onFetched(faultOf(cause))
      throw unreachable(cause)
    }
  }
  return createRemoteJWKSet(new URL(source.url), { timeoutDuration, [customFetch]: get })
}

/** A fault that can be reported without repeating the response of the issuer. */
class Fault extends Error {}

async function read(url: string, options: RequestInit): Promise<string> {
  const response = await fetch(url, { ...options, redirect: 'manual' })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Fault(`The key set URL returned the status ${response.status}.`)
  }
  const pieces: Uint8Array[] = []
  let total = 0
  for await (const piece of response.body ?? []) {
    total += piece.length
    if (total > mostBytes) throw new Fault(`The key set URL returned more than ${mostBytes} bytes.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces, total).toString()
}

function parsed(text: string): { keys: object[] } {
  try {
    return JSON.parse(text)
  } catch {
    throw new Fault('The key set URL returned no JSON Web Key Set.')
  }
}

/** Messages of other libraries may contain the response; their names and codes do not. */
function faultOf(error: unknown): string {
  if (error instanceof Fault) return error.message
  const { name, code, cause } = isObject(error) ? error : {}
  if (code === 'ERR_JWKS_INVALID') return 'The key set URL returned no JSON Web Key Set.'
  return `The key set URL is unreachable: ${String((isObject(cause) ? cause.code : undefined) ?? name)}.`
}

function unreachable(cause?: unknown): ToolError {
  const message = 'The keys of the issuer of this token cannot be fetched; try again in a moment.'
  return new ToolError('STORE_UNAVAILABLE', message, { cause, stage: 'authorize' })
}
