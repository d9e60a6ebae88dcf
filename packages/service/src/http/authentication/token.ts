import { hash } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import type { JWTVerifyGetKey } from 'jose'
import type { TokenIssuer } from '../../config/authentication-settings.ts'
import { type Authenticator, bearerOf, type Known, unauthenticated } from './authenticator.ts'
import { createExpiring } from './expiring.ts'
import { issuerKeys } from './issuer-keys.ts'
import { type Claims, identityOf } from './token-identity.ts'

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
