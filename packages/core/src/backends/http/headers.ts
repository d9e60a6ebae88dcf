import { type HttpAuth, type Issue, ToolError } from '@gantry/contract'
import { isFramingHeader, isHeaderName, isSensitiveHeader } from '../../ids/header-names.ts'
import { fillSecrets, type Secrets } from '../../ids/secret-reference.ts'
import { isObject } from '../../json/kinds.ts'
import { badArgument, listOf, oneOf, record, ruled, type Shape, text } from './check.ts'

const visible = /^[\t\x20-\x7e]*$/

/** What is wrong with the name of a header that the configuration sets. */
export function headerNameFault(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is not the name of a header'
  return isFramingHeader(name) ? 'is a header that belongs to the connection and cannot be set' : undefined
}

/** What is wrong with a header whose name is that of an argument, because the binding writes no other. */
export function impliedHeaderFault(name: string): string | undefined {
  if (!isSensitiveHeader(name)) return headerNameFault(name)
  return `puts an argument into the header ${name}; if that is meant, write its name out`
}

/** What is wrong with the value of a header that the configuration sets. */
export function headerValueFault(value: string): string | undefined {
  return visible.test(value) ? undefined : 'holds a character that a header cannot carry'
}

/** The value of a header that comes from an argument; refuses what would arrive as something else. */
export function headerFromArgument(argument: string, value: string): string {
  if (!visible.test(value)) throw badArgument(argument, 'goes into a header and holds more than printable ASCII')
  if (value.trim() !== value) throw badArgument(argument, 'goes into a header and begins or ends with white space')
  return value
}

/** A text of the caller's as one header value that arrives whole; what a header cannot carry is percent-encoded. */
export function headerSafe(value: string): string {
  return visible.test(value) && value.trim() === value ? value : encodeURIComponent(value.toWellFormed())
}

const value = ruled(headerValueFault)
const shapes: { readonly [type: string]: Shape } = {
  bearer: record({ type: text, token: value }, ['token']),
  basic: record({ type: text, username: ruled(usernameFault), password: text }, ['username', 'password']),
  header: record({ type: text, name: ruled(headerNameFault), value }, ['name', 'value']),
  query: record({ type: text, name: text, value: text }, ['name', 'value']),
  cookie: record({ type: text, name: ruled(cookieNameFault), value: text }, ['name', 'value']),
}

function oneAuth(auth: unknown, path: string): readonly Issue[] {
  const type = isObject(auth) ? auth.type : undefined
  const known = typeof type === 'string' && Object.hasOwn(shapes, type) ? shapes[type] : undefined
  return known === undefined ? oneOf(...Object.keys(shapes))(type, `${path}/type`) : known(auth, path)
}

/** One way to prove who sends, or a list of them. */
export const authShape: Shape = (auth, path) => (Array.isArray(auth) ? listOf(oneAuth) : oneAuth)(auth, path)

export function authList(auth: HttpAuth | readonly HttpAuth[]): readonly HttpAuth[] {
  return Array.isArray(auth) ? (auth as readonly HttpAuth[]) : [auth as HttpAuth]
}

function usernameFault(name: string): string | undefined {
  return name.includes(':') && !name.startsWith('secret:') ? 'must not hold a colon' : undefined
}

function cookieNameFault(name: string): string | undefined {
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) ? undefined : 'is not the name of a cookie'
}

/** A header with its secret put in; a value that would break out of the header is refused without being shown. */
export function fillHeader(name: string, text: string, secrets: Secrets): string {
  const filled = fillSecrets(text, secrets)
  if (filled === text || headerValueFault(filled) === undefined) return filled
  const message = `The header ${name} cannot carry its secret, which holds a line break or more than printable ASCII.`
  throw new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}
