/** A host and a port as a request names them, in their usual form. */
export interface Authority {
  /** In lower case without a dot at its end; an IPv6 address stands in brackets. */
  readonly host: string
  readonly port: number
}

const form = /^((?:[a-z0-9_-]{1,63}\.){0,127}[a-z0-9_-]{1,63}\.?|\[[0-9a-f:.]{2,45}\])(?::([1-9][0-9]{0,4}))?$/i

/**
 * Reads `host:port`, or says undefined. A host counts only in its usual form: what URL parsing would read as another
 * one, such as `0x7f.1` or `[0:0:0:0:0:0:0:1]`, was written to mislead somebody.
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
