import { type HttpAuth, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isFramingHeader, isHeaderName, isSensitiveHeader } from '../../egress/headers.ts'
import { fillSecrets, type Secrets } from '../../ids/secret-reference.ts'
import { anyText, type Check, either, listOf, mapOf, part, ruled } from '../../options/option.ts'
import { optionsCheck } from '../../options/options.ts'
import { badArgument } from './parameters.ts'

const visible = /^[\t\x20-\x7e]*$/

/** Why a header name in the configuration is invalid. */
export function headerNameFault(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is not a valid header name'
  return isFramingHeader(name) ? 'is a header of the connection and cannot be set' : undefined
}

/** Why an argument must not implicitly set the header of its name. */
export function impliedHeaderFault(name: string): string | undefined {
  if (!isSensitiveHeader(name)) return headerNameFault(name)
  return `puts an argument into the header ${name}; if that is intended, give the parameter a name`
}

/** Why a header value in the configuration is invalid. */
export function headerValueFault(value: string): string | undefined {
  return visible.test(value) ? undefined : 'holds a character that is not allowed in a header'
}

/** A header value from an argument; throws for a value that would not arrive unchanged. */
export function headerFromArgument(argument: string, value: string): string {
  if (!visible.test(value)) throw badArgument(argument, 'goes into a header and holds more than printable ASCII')
  if (value.trim() !== value) throw badArgument(argument, 'goes into a header and begins or ends with white space')
  return value
}

/** A text of the caller as a header value; characters that are not allowed in a header are percent-encoded. */
export function headerSafe(value: string): string {
  return visible.test(value) && value.trim() === value ? value : encodeURIComponent(value.toWellFormed())
}

const value = ruled(headerValueFault)
const name = ruled(headerNameFault)
type Auth<Type extends HttpAuth['type']> = Extract<HttpAuth, { readonly type: Type }>
type NamedAuth = Extract<HttpAuth, { readonly name: string }>
const auths: { readonly [Type in HttpAuth['type']]: Check } = {
  bearer: optionsCheck<Auth<'bearer'>>({ members: { type: anyText, token: value }, required: ['token'] }),
  basic: optionsCheck<Auth<'basic'>>({
    members: { type: anyText, username: ruled(usernameFault), password: anyText },
    required: ['username', 'password'],
  }),
  header: optionsCheck<NamedAuth>({ members: { type: anyText, name, value }, required: ['name', 'value'] }),
  query: optionsCheck<NamedAuth>({
    members: { type: anyText, name: anyText, value: anyText },
    required: ['name', 'value'],
  }),
  cookie: optionsCheck<NamedAuth>({
    members: { type: anyText, name: ruled(cookieNameFault), value: anyText },
    required: ['name', 'value'],
  }),
}
const authTypes: ReadonlyMap<unknown, Check> = new Map(Object.entries(auths))
const wantedType = `must be one of ${Object.keys(auths).join(', ')}`

const oneAuth: Check = {
  schema: { anyOf: Object.values(auths).flatMap(({ schema }) => schema ?? []) },
  fits: (auth) => isObject(auth) && authTypes.get(auth.type)?.fits(auth) === true,
  issues: (auth, path) =>
    authTypes.get(isObject(auth) ? auth.type : undefined)?.issues(auth, path) ?? [
      { path: `${path}/type`, message: wantedType },
    ],
}
const severalAuths = listOf(oneAuth)

/** One auth scheme or a list of them. */
export const authCheck: Check = {
  schema: { anyOf: [oneAuth.schema, severalAuths.schema].flatMap((schema) => schema ?? []) },
  fits: (auth) => (Array.isArray(auth) ? severalAuths : oneAuth).fits(auth),
  issues: (auth, path) => (Array.isArray(auth) ? severalAuths : oneAuth).issues(auth, path),
}

/** Headers of a configuration. */
export const headersCheck = mapOf(value, headerNameFault)
/** The header for the idempotency key, or false for none. */
export const idempotencyCheck = either(
  part((given) => given === false, 'false'),
  name,
)

export function authList(auth: HttpAuth | readonly HttpAuth[]): readonly HttpAuth[] {
  return [auth].flat()
}

function usernameFault(name: string): string | undefined {
  return name.includes(':') && !name.startsWith('secret:') ? 'must not hold a colon' : undefined
}

function cookieNameFault(name: string): string | undefined {
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) ? undefined : 'is not a valid cookie name'
}

/** A header value with its secrets; throws, without repeating the value, when it would inject a header. */
export function fillHeader(name: string, text: string, secrets: Secrets): string {
  const filled = fillSecrets(text, secrets)
  if (filled === text || headerValueFault(filled) === undefined) return filled
  const message = `The header ${name} cannot carry its secret, which holds a line break or more than printable ASCII.`
  throw new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}
