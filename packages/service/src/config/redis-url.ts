import { ToolError } from '@gantry/contract'

export interface Host {
  readonly host: string
  readonly port: number
}

/** The parts of an address. */
export interface RedisAddress {
  readonly kind: 'server' | 'sentinel' | 'cluster'
  readonly secure: boolean
  readonly hosts: readonly Host[]
  readonly username: string
  readonly password: string
  readonly database: number
  /** Of the main server, as its sentinels know it. */
  readonly name: string
}

const usualPort = { server: 6_379, sentinel: 26_379, cluster: 6_379 }
const scheme = /^redis(s?)(?:\+(sentinel|cluster))?:\/\//
const mostHosts = 100

/**
 * Reads an address. Only these parts of it count: the parameters of a URL could undo the settings.
 * Throws CONFIG_INVALID, without any part of the address.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const [begin = '', s, form] = scheme.exec(url) ?? []
  const kind = form === 'sentinel' || form === 'cluster' ? form : 'server'
  if (begin === '') throw wrongAddress(kind)
  const [rest] = splitOnce(url.slice(begin.length), /[?#]/)
  const [authority, path] = splitOnce(rest, /\//)
  const at = authority.lastIndexOf('@')
  const hosts = authority.slice(at + 1).split(',', mostHosts + 1)
  const known = hosts.flatMap((host) => hostOf(host, usualPort[kind]) ?? [])
  const [name, database] = kind === 'sentinel' ? splitOnce(path, /\//) : ['', path]
  const counted = known.length === hosts.length && hosts.length <= (kind === 'server' ? 1 : mostHosts)
  const named = kind !== 'sentinel' || /^[\w.-]{1,100}$/.test(name)
  const numbered = kind === 'cluster' ? path === '' : /^\d{0,5}$/.test(database)
  if (!counted || !named || !numbered) throw wrongAddress(kind)
  const [username, password] = splitOnce(authority.slice(0, Math.max(0, at)), /:/)
  return {
    ...{ kind, secure: s === 's', hosts: known, name, database: Number(database) },
    ...{ username: decoded(username), password: decoded(password) },
  }
}

const forms = {
  server: 'redis://host:port/number',
  sentinel: 'redis+sentinel://host:port,host:port/name/number',
  cluster: 'redis+cluster://host:port,host:port',
}

/** What an address must be, for those who check it before it is used. */
export const redisUrlRule = `must be of the form ${forms.server}, ${forms.sentinel} or ${forms.cluster}, each with user:password@ before the hosts if need be (%25 for a %), and with rediss for TLS`

export function isRedisUrl(url: string): boolean {
  try {
    parseRedisUrl(url)
    return true
  } catch {
    return false
  }
}

function wrongAddress(kind: RedisAddress['kind']): ToolError {
  return new ToolError('CONFIG_INVALID', `The address of Redis is not of the form ${forms[kind]}.`)
}

function hostOf(text: string, usual: number): Host | undefined {
  const parsed = URL.parse(`redis://${text}`)
  if (parsed === null || parsed.hostname === '') return undefined
  return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: parsed.port === '' ? usual : Number(parsed.port) }
}

/** What stands before the first separator, and what behind. */
function splitOnce(text: string, separator: RegExp): [string, string] {
  const at = text.search(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new ToolError('CONFIG_INVALID', 'The user or the password of Redis has a % that is not an escape; write %25.')
  }
}
