import type { HttpAuth, Issue } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
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

/** `secret:name`, alone or within a text; the name ends where a sentence would go on. */
const reference = /(?<![A-Za-z0-9_-])secret:([A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*)/g

/** Puts secrets into texts of the configuration, and knows afterwards which values those were. */
export interface Unsealer {
  /** Rejects when a secret is missing, before anything is sent. */
  open(text: string): Promise<string>
  /** The values put in so far. */
  readonly values: readonly string[]
}

/** For one call: each secret is asked for once, and what comes back is not searched for references again. */
export function createUnsealer(secret: (name: string) => Promise<string>): Unsealer {
  const known = new Map<string, string>()
  return {
    async open(sealed) {
      for (const [, name = ''] of sealed.matchAll(reference)) {
        if (!known.has(name)) known.set(name, await secret(name))
      }
      return sealed.replace(reference, (_whole, name: string) => known.get(name) ?? '')
    },
    get values() {
      return [...known.values()]
    },
  }
}

/** A header with its secret put in; a value that would break out of the header is refused without being shown. */
export async function openHeader(unsealer: Unsealer, name: string, sealed: string): Promise<string> {
  const opened = await unsealer.open(sealed)
  if (headerValueFault(opened) === undefined) return opened
  const message = `The header ${name} cannot carry its secret, which holds a line break or more than printable ASCII.`
  throw new ToolError('SECRET_UNAVAILABLE', message, { retryable: false })
}
