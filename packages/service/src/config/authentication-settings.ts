import { resolve } from 'node:path'
import type { Issue, JsonObject, JsonSchema } from '@gantry/contract'
import { JsonError } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import { readBoundedFile } from './bounded-file.ts'
import { configError } from './problem.ts'

/** Where the public keys of an issuer come from: one address, or what a file held. */
export type IssuerKeys = { readonly url: string } | { readonly set: { readonly keys: readonly object[] } }

/** What the claims of an issuer's tokens mean here. */
export interface ClaimRules {
  /** What its principals begin with, so that those of two issuers are never the same. */
  readonly name: string
  /** A claim by its name, or by a JSON Pointer such as `/realm_access/roles`. */
  readonly claims: {
    readonly principal: string
    readonly tenant?: string
    readonly roles?: string
    readonly permissions?: string
  }
  /** The tenant of all its tokens, where no claim says it. */
  readonly tenant?: string
  /** Of the tenants that a claim may say, those that it may speak for; all of them when absent. */
  readonly tenants?: readonly string[]
  /** Permissions of tokens count as far as these go. */
  readonly grants: readonly string[]
}

/** Whose tokens count, and for what. */
export interface TokenIssuer extends ClaimRules {
  /** Exactly as its tokens say. */
  readonly issuer: string
  /** A token must be meant for one of these. */
  readonly audience: readonly string[]
  /** Of the asymmetric ones; no others can be checked without a secret that the issuer shares. */
  readonly algorithms: readonly string[]
  readonly leewaySeconds: number
  readonly keys: IssuerKeys
}

/** How callers over HTTP show who they are. The key file lets its owner in whatever this says. */
export interface AuthenticationSettings {
  /** Whether keys that were made with `gantry keys` are let in. */
  readonly keys: boolean
  /** Whether requests that are signed with such a key are. */
  readonly signed: boolean
  /** Whose tokens are. */
  readonly jwt: readonly TokenIssuer[]
}

export const defaultAuthentication: AuthenticationSettings = { keys: true, signed: true, jwt: [] }

/** None that could be checked with what is public, which is how a token is forged with an issuer's own public key. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]
const usualAlgorithms = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519']
const usualLeewaySeconds = 30
const mostFileBytes = 262_144

const text = { type: 'string', minLength: 1, maxLength: 1_000 }
const texts = { type: 'array', items: text, minItems: 1 }

const issuerSchema = {
  type: 'object',
  properties: {
    issuer: text,
    name: { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$' },
    audience: { anyOf: [text, texts] },
    jwksUrl: { type: 'string', pattern: '^https?://' },
    jwksFile: text,
    algorithms: { type: 'array', items: { enum: algorithms }, minItems: 1 },
    leewaySeconds: { type: 'integer', minimum: 0, maximum: 60 },
    claims: {
      type: 'object',
      properties: { principal: text, tenant: text, roles: text, permissions: text },
      additionalProperties: false,
    },
    tenant: text,
    tenants: texts,
    grants: texts,
  },
  required: ['issuer', 'audience'],
  additionalProperties: false,
}

export const authenticationSchema: JsonSchema = {
  type: 'object',
  properties: { keys: { type: 'boolean' }, signed: { type: 'boolean' }, jwt: { type: 'array', items: issuerSchema } },
  additionalProperties: false,
}

type SaidIssuer = Partial<Omit<TokenIssuer, 'audience' | 'issuer'>> & {
  readonly issuer: string
  readonly audience: string | readonly string[]
  readonly jwksUrl?: string
  readonly jwksFile?: string
}

/** What is wrong with it beyond its shape, which was checked before. */
export function authenticationIssues({ authentication }: JsonObject, folder: string): Issue[] {
  const said = saidIssuers(authentication)
  return said.flatMap((issuer, index) => {
    const at = `/authentication/jwt/${index}`
    const first = said.findIndex((other) => other.issuer === issuer.issuer || nameOf(other) === nameOf(issuer))
    return [
      ...issuerIssues(issuer, folder).map(({ path, message }) => ({ path: `${at}${path}`, message })),
      ...(first === index ? [] : [{ path: at, message: `has the issuer or the name of /authentication/jwt/${first}` }]),
    ]
  })
}

export function authenticationSettings({ authentication }: JsonObject, folder: string): AuthenticationSettings {
  const { keys = true, signed = true } = (authentication ?? {}) as Partial<AuthenticationSettings>
  return { keys, signed, jwt: saidIssuers(authentication).map((said) => issuerOf(said, folder)) }
}

function issuerOf(said: SaidIssuer, folder: string): TokenIssuer {
  const { issuer, audience, claims, jwksUrl, jwksFile = '', tenant, tenants, grants = [] } = said
  const keys = jwksUrl === undefined ? readKeys(resolve(folder, jwksFile)) : { url: jwksUrl }
  if (typeof keys === 'string') throw configError(undefined, `The keys of ${issuer} cannot be had: ${keys}.`, [])
  return {
    ...{ issuer, name: nameOf(said), audience: typeof audience === 'string' ? [audience] : audience, keys, grants },
    claims: { ...claims, principal: claims?.principal ?? 'sub' },
    algorithms: said.algorithms ?? usualAlgorithms,
    leewaySeconds: said.leewaySeconds ?? usualLeewaySeconds,
    ...(tenant === undefined ? {} : { tenant }),
    ...(tenants === undefined ? {} : { tenants }),
  }
}

function issuerIssues(said: SaidIssuer, folder: string): Issue[] {
  const { claims, jwksUrl, jwksFile, tenant, tenants } = said
  const issues: Issue[] = []
  if ((jwksUrl === undefined) === (jwksFile === undefined)) {
    issues.push({ path: '', message: 'must have exactly one of jwksUrl and jwksFile' })
  }
  if ((tenant === undefined) === (claims?.tenant === undefined)) {
    issues.push({ path: '', message: 'must have exactly one of tenant, for all of its tokens, and claims.tenant' })
  }
  if (tenants !== undefined && claims?.tenant === undefined) {
    issues.push({ path: '/tenants', message: 'is for a tenant that claims.tenant says' })
  }
  if (jwksUrl !== undefined && !isSafe(jwksUrl)) {
    issues.push({
      path: '/jwksUrl',
      message: 'must be https, or http on this machine: who changes the keys is anybody',
    })
  }
  if (nameOf(said) === 'key')
    issues.push({ path: '/name', message: 'must not be key: that is for keys of this service' })
  const keys = jwksFile === undefined ? undefined : readKeys(resolve(folder, jwksFile))
  if (typeof keys === 'string') issues.push({ path: '/jwksFile', message: keys })
  return issues
}

function isSafe(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  return protocol === 'https:' || /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname ?? '')
}

/** The keys in a file, or what is wrong with it. */
function readKeys(file: string): IssuerKeys | string {
  try {
    const read = readBoundedFile(file, mostFileBytes)
    if (read.state !== 'read') return `${file} is not a file of at most ${mostFileBytes} bytes`
    const set = parseJson(read.text, { bytes: mostFileBytes, depth: 8, nodes: 10_000 }) as { keys?: object[] }
    return Array.isArray(set?.keys) ? { set: { keys: set.keys } } : `${file} is not a JSON Web Key Set`
  } catch (error) {
    return `${file} ${error instanceof JsonError ? 'is not JSON' : 'cannot be read'}`
  }
}

/** Two issuers on one host have to be told apart by a name; without a colon, which ends it. */
function nameOf({ name, issuer }: SaidIssuer): string {
  return name ?? (URL.parse(issuer)?.host || issuer).replaceAll(/[^\w.-]/g, '-')
}

function saidIssuers(authentication: unknown): readonly SaidIssuer[] {
  const { jwt } = (authentication ?? {}) as { readonly jwt?: unknown }
  // What has another shape was found wrong before.
  return Array.isArray(jwt) && jwt.every((one) => typeof one?.issuer === 'string') ? (jwt as readonly SaidIssuer[]) : []
}
