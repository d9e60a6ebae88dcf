import { isIP } from 'node:net'
import { type Issue, ToolError } from '@gantry/contract'
import type { Authority } from './authority.ts'

/** An origin that a sandbox may reach, as far as the proxy has to know it; the rules of egress decide. */
export interface AllowedOrigin {
  readonly scheme: string
  /** Without the `*.` when `below` is set. */
  readonly host: string
  readonly below: boolean
  readonly port: number
}

/** Parses `network.allow`, or throws INPUT_INVALID with the path of each entry that egress would not understand. */
export function parseAllow(allow: unknown): readonly AllowedOrigin[] {
  const issues: Issue[] = []
  if (!Array.isArray(allow)) issues.push({ path: '/network/allow', message: 'must be a list of origins' })
  const list: readonly unknown[] = Array.isArray(allow) ? allow : []
  const origins = list.map((entry, index) => {
    const origin = typeof entry === 'string' ? parseOrigin(entry) : undefined
    const message = 'must be only scheme, host and port, such as "https://api.example.com"'
    if (origin === undefined) issues.push({ path: `/network/allow/${index}`, message })
    return origin
  })
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('INPUT_INVALID', `What the sandbox may reach is wrong: ${text}.`, { details: { issues } })
  }
  return origins.filter((origin) => origin !== undefined)
}

/** Whether an origin of this scheme is on the list. */
export function names(origins: readonly AllowedOrigin[], scheme: string, { host, port }: Authority): boolean {
  const fits = (origin: AllowedOrigin): boolean =>
    origin.below ? host.endsWith(`.${origin.host}`) : host === origin.host
  return origins.some((origin) => origin.scheme === scheme && origin.port === port && fits(origin))
}

/** Entries of a list that another does not name wholly. */
export function outsideOf(entries: readonly string[], list: readonly string[]): readonly string[] {
  const origins = parseAllow(list)
  const inside = parseAllow(entries).map((entry) => origins.some((origin) => holds(origin, entry)))
  return entries.filter((_, index) => inside[index] !== true)
}

/** Whether two lists have an origin in common. */
export function meet(some: readonly string[], others: readonly string[]): boolean {
  const origins = parseAllow(others)
  return parseAllow(some).some((one) => origins.some((other) => holds(one, other) || holds(other, one)))
}

/** Whether an entry names all that another does. */
function holds(one: AllowedOrigin, other: AllowedOrigin): boolean {
  if (one.scheme !== other.scheme || one.port !== other.port) return false
  if (!one.below) return !other.below && one.host === other.host
  return other.host.endsWith(`.${one.host}`) || (other.below && one.host === other.host)
}

function parseOrigin(text: string): AllowedOrigin | undefined {
  const [, scheme = '', star, rest = ''] = /^(https?):\/\/(\*\.)?([^/?#@\\\s*]+)$/i.exec(text) ?? []
  const url = rest === '' ? null : URL.parse(`${scheme}://${rest}`)
  if (url === null || url.port === '0') return undefined
  const host = url.hostname.replace(/\.$/, '')
  const below = star !== undefined
  if (below && (!host.includes('.') || isIP(host) !== 0)) return undefined
  const usual = url.protocol === 'https:' ? 443 : 80
  return { scheme: url.protocol.slice(0, -1), host, below, port: url.port === '' ? usual : Number(url.port) }
}
