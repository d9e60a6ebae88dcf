import { isIP } from 'node:net'
import type { Issue } from '@gantry/contract'
import { refuse } from '@gantry/core/internal/options/options'

/** An origin that a sandbox may reach, as far as the proxy needs it; the egress rules decide. */
export interface AllowedOrigin {
  readonly scheme: string
  /** Without the `*.` when `below` is set. */
  readonly host: string
  readonly below: boolean
  readonly port: number
}

/** Parses `network.allow`, or throws INPUT_INVALID with the path of each entry that egress would refuse. */
export function parseAllow(allow: unknown): readonly AllowedOrigin[] {
  refuse('network of the sandbox', allowIssues(allow, '/network/allow'), 'INPUT_INVALID')
  const list: readonly unknown[] = Array.isArray(allow) ? allow : []
  return list.map(originOf).filter((origin) => origin !== undefined)
}

/** Issues of an origin list, at paths below `path`. */
export function allowIssues(allow: unknown, path: string): readonly Issue[] {
  if (!Array.isArray(allow)) return [{ path, message: 'must be a list of origins' }]
  const message = 'must be only scheme, host and port, such as "https://api.example.com"'
  return allow.flatMap((entry, index) => (originOf(entry) === undefined ? [{ path: `${path}/${index}`, message }] : []))
}

function originOf(entry: unknown): AllowedOrigin | undefined {
  return typeof entry === 'string' ? parseOrigin(entry) : undefined
}

/** Whether the list contains an origin of this scheme. */
export function isListed(origins: readonly AllowedOrigin[], scheme: string, { host, port }: Authority): boolean {
  const fits = (origin: AllowedOrigin): boolean =>
    origin.below ? host.endsWith(`.${origin.host}`) : host === origin.host
  return origins.some((origin) => origin.scheme === scheme && origin.port === port && fits(origin))
}

/** Entries of a list that another list does not cover completely. */
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

/** Whether one entry covers another. */
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

/** A normalized host and port. */
export interface Authority {
  /** In lower case without a trailing dot; an IPv6 address in brackets. */
  readonly host: string
  readonly port: number
}

const form = /^((?:[a-z0-9_-]{1,63}\.){0,127}[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]{2,45}\])(?::([1-9][0-9]{0,4}))?$/i

/**
 * Parses `host:port`; undefined when it is invalid. A host is accepted only in its normalized form: what URL parsing would
 * change, such as `0x7f.1` or `[0:0:0:0:0:0:0:1]`, was written to mislead a reader.
 */
export function parseAuthority(text: string, usualPort?: number): Authority | undefined {
  const [, written, digits] = form.exec(text) ?? []
  const port = digits === undefined ? usualPort : Number(digits)
  const host = written?.toLowerCase().replace(/\.$/, '')
  if (host === undefined || port === undefined || port > 65_535) return undefined
  return URL.parse(`http://${host}`)?.hostname === host ? { host, port } : undefined
}

/** Whether the Host headers of a request, at most one, match its authority; `usualPort` applies without a port. */
export function isNamedBy(hosts: readonly string[] | undefined, authority: Authority, usualPort: number): boolean {
  const [host, ...more] = hosts ?? []
  if (host === undefined) return true
  const named = parseAuthority(host, usualPort)
  return more.length === 0 && named?.host === authority.host && named.port === authority.port
}

const usualPorts = { http: 80, https: 443 } as const

/** The target of a request. */
export interface RequestTarget {
  readonly authority: Authority
  readonly usualPort: number
  readonly url: URL
}

/** Parses the target of a proxy request, `http://host/path`; undefined for everything else. */
export function parseTarget(text: string): RequestTarget | undefined {
  const [, scheme, place = '', path = '/'] = /^(https?):\/\/([^/?]+)([/?].*)?$/i.exec(text) ?? []
  const usualPort = usualPorts[scheme?.toLowerCase() === 'https' ? 'https' : 'http']
  const authority = parseAuthority(place, usualPort)
  if (scheme === undefined || authority === undefined || !isPath(path)) return undefined
  return { authority, usualPort, url: new URL(`${scheme}://${authority.host}:${authority.port}${path}`) }
}

/** Parses the target of a request inside a tunnel, which is only a path. */
export function parsePath(text: string, authority: Authority, secure: boolean): RequestTarget | undefined {
  if (!text.startsWith('/') || !isPath(text)) return undefined
  const scheme = secure ? 'https' : 'http'
  const url = new URL(`${scheme}://${authority.host}:${authority.port}${text}`)
  return { authority, usualPort: usualPorts[scheme], url }
}

/** Parsers read backslashes and fragments differently, so both are refused. */
function isPath(text: string): boolean {
  return /^[!-~]+$/.test(text) && !/[\\#]/.test(text)
}
