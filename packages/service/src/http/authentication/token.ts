import { hash } from 'node:crypto'
import { type Identity, type Json, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { JWTVerifyGetKey } from 'jose'
import type { ClaimRules, IssuerKeys, TokenIssuer } from '../../config/authentication-settings.ts'
import { type Authenticator, bearerOf, createExpiring, type Known, unauthenticated } from './authenticator.ts'

export interface TokenOptions {
  readonly now?: () => number
  /** Hears whether the keys of an issuer are there, whenever they were fetched; else why not. */
  readonly told?: (issuer: TokenIssuer, fault: string | undefined) => void
}

const form = /^[\w-]+\.[\w-]+\.[\w-]*$/
const types: readonly unknown[] = [undefined, 'jwt', 'at+jwt', 'application/jwt', 'application/at+jwt']
/** As long as this a token is not checked again. */
const keptMs = 30_000
const mostKept = 10_000

/**
 * Knows JSON Web Tokens of the issuers that are configured: signed with a fixed algorithm by a key of that issuer, meant
 * for us, valid now, and with an end. Nothing in the head of a token decides how it is checked.
 */
export function tokenAuthenticator(
  issuers: readonly TokenIssuer[],
  { now = Date.now, told = () => undefined }: TokenOptions = {},
): Authenticator {
  const kept = createExpiring<Known>(mostKept, now)
  const keysOf = (issuer: TokenIssuer): Promise<JWTVerifyGetKey> =>
    issuerKeys(issuer.keys, { now, told: (fault) => told(issuer, fault) })
  const trusted = new Map(issuers.map((issuer) => [issuer.issuer, { issuer, keys: lazily(() => keysOf(issuer)) }]))

  const check = async (token: string): Promise<{ readonly known: Known; readonly leftMs: number }> => {
    const { decodeJwt, jwtVerify } = await import('jose')
    const found = trusted.get(String(decodeJwt(token).iss))
    if (found === undefined) throw unauthenticated()
    const { issuer, audience, algorithms, leewaySeconds } = found.issuer
    const { payload, protectedHeader } = await jwtVerify(token, await found.keys(), {
      ...{ issuer, audience: [...audience], algorithms: [...algorithms], clockTolerance: leewaySeconds },
      ...{ requiredClaims: ['exp'], currentDate: new Date(now()) },
    })
    const { exp = 0, iat } = payload
    const early = iat !== undefined && iat > now() / 1_000 + leewaySeconds
    if (early || !types.includes(protectedHeader.typ?.toLowerCase())) throw unauthenticated()
    const identity = identityOf(payload as Claims, found.issuer)
    if (identity === undefined) throw unauthenticated()
    return { known: { identity }, leftMs: (exp + leewaySeconds) * 1_000 - now() }
  }
  return {
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

/** What is made at the first use. */
function lazily(make: () => Promise<JWTVerifyGetKey>): () => Promise<JWTVerifyGetKey> {
  let made: Promise<JWTVerifyGetKey> | undefined
  return () => {
    made ??= make()
    return made
  }
}

type Claims = { readonly [claim: string]: Json | undefined }

/** What nobody sees, or takes for something else: also blank letters, and spaces but for single ones between words. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{DI}\u2800\u{1d159}]|(?! )\p{Z}|^ | {2}| $/u
const wordLength = /^.{1,200}$/su
const most = 500

/** Whether it can stand in a log line and a column, looks like what it is and like nothing else, and is not too long. */
export function isWord(text: string): boolean {
  return wordLength.test(text) && !unseen.test(text) && text === text.normalize('NFC')
}

/** Who a token is of; undefined when it does not say, or says what it may not. */
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
  const said = textOf(claimOf(claims, tenant))
  // A star stands for all of them elsewhere, and is nobody's name.
  if (said === undefined || said === '*') return undefined
  return tenants === undefined || tenants.includes(said) ? said : undefined
}

/** A list, or a text with spaces between, as `scope` is; none when there is no such claim. */
function textsOf(claims: Claims, path: string | undefined): readonly string[] | undefined {
  const value = path === undefined ? undefined : claimOf(claims, path)
  if (value === undefined || value === null) return []
  const list = typeof value === 'string' ? value.split(' ').filter((one) => one !== '') : value
  if (!Array.isArray(list) || list.length > most) return undefined
  const texts = list.map(textOf)
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' && isWord(value) ? value : undefined
}

/** Claims may be named like addresses, so that only what begins with a slash is a pointer. */
function claimOf(claims: Claims, path: string): Json | undefined {
  if (!path.startsWith('/')) return Object.hasOwn(claims, path) ? claims[path] : undefined
  let value: Json | undefined = claims as Json
  for (const segment of path.slice(1).split('/')) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Claims)[key]
  }
  return value
}

interface IssuerKeysOptions {
  readonly now: () => number
  /** Hears what came of every time that they were fetched: nothing when they are there, else why not. */
  readonly told: (fault: string | undefined) => void
}

const mostBytes = 262_144
const timeoutDuration = 5_000
/** An issuer that does not answer is left alone for so long. */
const restMs = 5_000

/**
 * The keys of an issuer, by their ids. They come from the configured place and nowhere else, whatever a token says: from
 * an address they are fetched when they are needed, kept for ten minutes, and fetched again for an unknown id at most
 * every half a minute. Rejects with STORE_UNAVAILABLE when they cannot be had, also when what is there is something else.
 */
async function issuerKeys(source: IssuerKeys, { now, told }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, createRemoteJWKSet, customFetch } = await import('jose')
  if ('set' in source) return createLocalJWKSet({ keys: [...source.set.keys] })
  let restUntil = 0
  const get = async (url: string, options: RequestInit): Promise<Response> => {
    const restLeft = restUntil - now()
    // A clock that was put back must not make the rest longer.
    if (restLeft > 0 && restLeft <= restMs) throw unreachable()
    try {
      const text = await read(url, options)
      createLocalJWKSet(parsed(text))
      told(undefined)
      return new Response(text, { status: 200 })
    } catch (cause) {
      restUntil = now() + restMs
      told(faultOf(cause))
      throw unreachable(cause)
    }
  }
  return createRemoteJWKSet(new URL(source.url), { timeoutDuration, [customFetch]: get })
}

/** Something that we can say of an issuer without repeating what it sent. */
class Fault extends Error {}

async function read(url: string, options: RequestInit): Promise<string> {
  const response = await fetch(url, { ...options, redirect: 'manual' })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Fault(`It answers with the status ${response.status}.`)
  }
  const pieces: Uint8Array[] = []
  let total = 0
  for await (const piece of response.body ?? []) {
    total += piece.length
    if (total > mostBytes) throw new Fault(`It answers with more than ${mostBytes} bytes.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces, total).toString()
}

function parsed(text: string): { keys: object[] } {
  try {
    return JSON.parse(text)
  } catch {
    throw new Fault('What it answers is no set of keys.')
  }
}

/** Messages of others may hold what was answered; their names and codes do not. */
function faultOf(error: unknown): string {
  if (error instanceof Fault) return error.message
  const { name, code, cause } = (error ?? {}) as { name?: unknown; code?: unknown; cause?: { code?: unknown } | null }
  if (code === 'ERR_JWKS_INVALID') return 'What it answers is no set of keys.'
  return `It cannot be reached: ${String(cause?.code ?? name)}.`
}

function unreachable(cause?: unknown): ToolError {
  const message = 'The keys of the issuer of this token cannot be fetched; try again in a moment.'
  return new ToolError('STORE_UNAVAILABLE', message, { cause, stage: 'authorize' })
}
