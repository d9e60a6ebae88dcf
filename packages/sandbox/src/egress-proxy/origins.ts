import { isIP } from 'node:net'
import { type Issue, ToolError } from '@gantry/contract'

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
export function isListed(origins: readonly AllowedOrigin[], scheme: string, { host, port }: Authority): boolean {
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
export function overlap(some: readonly string[], others: readonly string[]): boolean {
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

/** A host and a port as a request names them, in their usual form. */
export interface Authority {
  /** In lower case without a dot at its end; an IPv6 address stands in brackets. */
  readonly host: string
  readonly port: number
}

const form = /^((?:[a-z0-9_-]{1,63}\.){0,127}[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]{2,45}\])(?::([1-9][0-9]{0,4}))?$/i

/**
 * Reads `host:port`, or says undefined. A host counts only in its usual form: what URL parsing would read as another
 * one, such as `0x7f.1` or `[0:0:0:0:0:0:0:1]`, was written to mislead a reader.
 */
export function parseAuthority(text: string, usualPort?: number): Authority | undefined {
  const [, written, digits] = form.exec(text) ?? []
  const port = digits === undefined ? usualPort : Number(digits)
  const host = written?.toLowerCase().replace(/\.$/, '')
  if (host === undefined || port === undefined || port > 65_535) return undefined
  return URL.parse(`http://${host}`)?.hostname === host ? { host, port } : undefined
}

/** Whether the Host headers of a request, at most one, name what the request names; without a port `usualPort` is meant. */
export function isNamedBy(hosts: readonly string[] | undefined, authority: Authority, usualPort: number): boolean {
  const [host, ...more] = hosts ?? []
  if (host === undefined) return true
  const named = parseAuthority(host, usualPort)
  return more.length === 0 && named?.host === authority.host && named.port === authority.port
}

const usualPorts = { http: 80, https: 443 } as const

/** Where a request goes. */
export interface RequestTarget {
  readonly authority: Authority
  readonly usualPort: number
  readonly url: URL
}

/** Reads the target of a request to a proxy, `http://host/path`; undefined for everything else. */
export function parseTarget(text: string): RequestTarget | undefined {
  const [, scheme, place = '', path = '/'] = /^(https?):\/\/([^/?]+)([/?].*)?$/i.exec(text) ?? []
  const usualPort = usualPorts[scheme?.toLowerCase() === 'https' ? 'https' : 'http']
  const authority = parseAuthority(place, usualPort)
  if (scheme === undefined || authority === undefined || !isPath(path)) return undefined
  return { authority, usualPort, url: new URL(`${scheme}://${authority.host}:${authority.port}${path}`) }
}

/** Reads the target of a request inside a tunnel, which is only a path. */
export function parsePath(text: string, authority: Authority, secure: boolean): RequestTarget | undefined {
  if (!text.startsWith('/') || !isPath(text)) return undefined
  const scheme = secure ? 'https' : 'http'
  const url = new URL(`${scheme}://${authority.host}:${authority.port}${text}`)
  return { authority, usualPort: usualPorts[scheme], url }
}

/** Backslashes and fragments are read differently by different parsers, so that neither goes any further. */
function isPath(text: string): boolean {
  return /^[!-~]+$/.test(text) && !/[\\#]/.test(text)
}
