import { resolve } from 'node:path'
import type { Issue, JsonObject, JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { JsonError } from '@gantry/core/internal/json/plain'
import { compileSchema } from '@gantry/json-schema'
import { readBoundedFile } from './bounded-file.ts'
import { configError } from './problem.ts'

/** The public keys of an issuer: the URL of its JWKS, or the key set of a file. */
export type IssuerKeys = { readonly url: string } | { readonly set: { readonly keys: readonly object[] } }

/** How the claims of an issuer's tokens map to an identity. */
export interface ClaimRules {
  /** Prefix of its principals, so that two issuers never share one. */
  readonly name: string
  /** A claim by its name, or by a JSON Pointer such as `/realm_access/roles`. */
  readonly claims: {
    readonly principal: string
    readonly tenant?: string
    readonly roles?: string
    readonly permissions?: string
  }
  /** The tenant of all its tokens, when no claim holds it. */
  readonly tenant?: string
  /** Tenants that its tokens may claim; all when absent. */
  readonly tenants?: readonly string[]
  /** Upper bound of the permissions that its tokens can have. */
  readonly grants: readonly string[]
}

/** An issuer whose tokens are accepted. */
export interface TokenIssuer extends ClaimRules {
  /** Exactly the `iss` claim of its tokens. */
  readonly issuer: string
  /** The `aud` claim of a token must contain one of these. */
  readonly audience: readonly string[]
  /** Asymmetric algorithms only; others need a secret shared with the issuer. */
  readonly algorithms: readonly string[]
  readonly leewaySeconds: number
  readonly keys: IssuerKeys
}

/** How HTTP callers authenticate. The owner key of the key file is accepted whatever these settings are. */
export interface AuthenticationSettings {
  /** Whether keys made with `gantry keys` are accepted. */
  readonly keys: boolean
  /** Whether requests signed with such a key are accepted. */
  readonly signed: boolean
  /** Issuers whose tokens are accepted. */
  readonly jwt: readonly TokenIssuer[]
}

export const defaultAuthentication: AuthenticationSettings = { keys: true, signed: true, jwt: [] }

/** No symmetric algorithm: it would let a token be forged with the issuer's public key as the secret. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
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

/** The key `authentication` of a checked configuration. */
export interface AuthenticationDocument {
  readonly keys?: boolean
  readonly signed?: boolean
  readonly jwt?: readonly IssuerDocument[]
}

type IssuerDocument = Partial<Omit<TokenIssuer, 'audience' | 'issuer'>> & {
  readonly issuer: string
  readonly audience: string | readonly string[]
  readonly jwksUrl?: string
  readonly jwksFile?: string
}

/** Problems of `authentication` that the schema does not find. */
export function authenticationIssues({ authentication }: JsonObject, folder: string): Issue[] {
  const issuers = issuerDocuments(authentication)
  return issuers.flatMap((issuer, index) => {
    if (issuer === undefined) return []
    const at = `/authentication/jwt/${index}`
    const first = issuers.findIndex(
      (other) => other !== undefined && (other.issuer === issuer.issuer || nameOf(other) === nameOf(issuer)),
    )
    return [
      ...issuerIssues(issuer, folder).map(({ path, message }) => ({ path: `${at}${path}`, message })),
      ...(first === index ? [] : [{ path: at, message: `has the issuer or the name of /authentication/jwt/${first}` }]),
    ]
  })
}

export function authenticationSettings(document: AuthenticationDocument = {}, folder: string): AuthenticationSettings {
  const { keys = true, signed = true, jwt = [] } = document
  return { keys, signed, jwt: jwt.map((issuer) => issuerOf(issuer, folder)) }
}

function issuerOf(document: IssuerDocument, folder: string): TokenIssuer {
  const { issuer, audience, claims, jwksUrl, jwksFile = '', tenant, tenants, grants = [] } = document
  const keys = jwksUrl === undefined ? readKeys(resolve(folder, jwksFile)) : { url: jwksUrl }
  if (typeof keys === 'string')
    throw configError(undefined, `The keys of the issuer ${issuer} cannot be read: ${keys}.`, [])
  return {
    issuer,
    name: nameOf(document),
    audience: typeof audience === 'string' ? [audience] : audience,
    keys,
    grants,
    claims: { ...claims, principal: claims?.principal ?? 'sub' },
    algorithms: document.algorithms ?? usualAlgorithms,
    leewaySeconds: document.leewaySeconds ?? usualLeewaySeconds,
    ...(tenant === undefined ? {} : { tenant }),
    ...(tenants === undefined ? {} : { tenants }),
  }
}

function issuerIssues(document: IssuerDocument, folder: string): Issue[] {
  const { claims, jwksUrl, jwksFile, tenant, tenants } = document
  const issues: Issue[] = []
  if ((jwksUrl === undefined) === (jwksFile === undefined)) {
    issues.push({ path: '', message: 'must have exactly one of jwksUrl and jwksFile' })
  }
  if ((tenant === undefined) === (claims?.tenant === undefined)) {
    issues.push({ path: '', message: 'must have exactly one of tenant, for all of its tokens, and claims.tenant' })
  }
  if (tenants !== undefined && claims?.tenant === undefined) {
    issues.push({ path: '/tenants', message: 'needs claims.tenant, which names the tenant' })
  }
  if (jwksUrl !== undefined && !isSafe(jwksUrl)) {
    issues.push({
      path: '/jwksUrl',
      message: 'must be https, or http on this machine: over plain http the keys can be replaced in transit',
    })
  }
  if (nameOf(document) === 'key')
    issues.push({ path: '/name', message: 'must not be key, which is reserved for API keys of this service' })
  const keys = jwksFile === undefined ? undefined : readKeys(resolve(folder, jwksFile))
  if (typeof keys === 'string') issues.push({ path: '/jwksFile', message: keys })
  return issues
}

function isSafe(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  return protocol === 'https:' || /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname ?? '')
}

/** The key set of a file, or the reason why it cannot be used. */
function readKeys(file: string): IssuerKeys | string {
  try {
    const read = readBoundedFile(file, mostFileBytes)
    if (read.state !== 'read') return `${file} is not a file of at most ${mostFileBytes} bytes`
    const set = parseJson(read.text, { bytes: mostFileBytes, depth: 8, nodes: 10_000 })
    const keys = isObject(set) ? set.keys : undefined
    if (!Array.isArray(keys) || !keys.every((key) => isObject(key))) return `${file} is not a JSON Web Key Set`
    return { set: { keys } }
  } catch (error) {
    return `${file} ${error instanceof JsonError ? 'is not JSON' : 'cannot be read'}`
  }
}

/** Two issuers on one host need different names. A name has no colon, which separates it from the subject. */
function nameOf({ name, issuer }: IssuerDocument): string {
  return name ?? (URL.parse(issuer)?.host || issuer).replaceAll(/[^\w.-]/g, '-')
}

/** The issuers of an unchecked document; undefined for one of the wrong type, which the schema reports. */
function issuerDocuments(authentication: unknown): readonly (IssuerDocument | undefined)[] {
  const jwt = isObject(authentication) ? authentication.jwt : undefined
  if (!Array.isArray(jwt) || jwt.length === 0) return []
  const schema = compileSchema(issuerSchema)
  const isIssuer = (value: unknown): value is IssuerDocument => schema.check(value)
  return jwt.map((one: unknown) => (isIssuer(one) ? one : undefined))
}
