import type { HttpAuth, Issue } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
import { fillSecrets, type Secrets } from '../../ids/secret-reference.ts'
import { isRecord, listOf, oneOf, record, ruled, type Shape, text } from './check.ts'
import { headerNameFault, headerValueFault } from './headers.ts'

const value = ruled(headerValueFault)
const shapes: { readonly [type: string]: Shape } = {
  bearer: record({ type: text, token: value }, ['token']),
  basic: record({ type: text, username: ruled(usernameFault), password: text }, ['username', 'password']),
  header: record({ type: text, name: ruled(headerNameFault), value }, ['name', 'value']),
  query: record({ type: text, name: text, value: text }, ['name', 'value']),
  cookie: record({ type: text, name: ruled(cookieNameFault), value: text }, ['name', 'value']),
}

function oneAuth(auth: unknown, path: string): readonly Issue[] {
  const type = isRecord(auth) ? auth.type : undefined
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
