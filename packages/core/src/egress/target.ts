import { ToolError } from '@gantry/contract'

/** The target of a connection, from WHATWG URL parsing: never a raw string of a caller. */
export interface Target {
  readonly scheme: 'http' | 'https'
  /** A name in lower case without a trailing dot, or a normalized IP address without brackets. */
  readonly host: string
  readonly port: number
  /** In the form of a rule. */
  readonly origin: string
}

const usualPorts = { http: 80, https: 443 } as const

/** Parses a URL or throws INPUT_INVALID. */
export function parseUrl(url: string | URL, base?: URL): URL {
  try {
    // A URL object is already parsed.
    return url instanceof URL ? url : new URL(url, base)
  } catch {
    throw new ToolError('INPUT_INVALID', 'The URL cannot be parsed.', { stage: 'execute' })
  }
}

/** The target of a URL; undefined when its scheme is not http or https. */
export function targetOf(url: URL): Target | undefined {
  const scheme = url.protocol.slice(0, -1)
  if (scheme !== 'http' && scheme !== 'https') return undefined
  const host = plainHost(url.hostname)
  const port = url.port === '' ? usualPorts[scheme] : Number(url.port)
  return { scheme, host, port, origin: originOf(scheme, host, port) }
}

/** The host without the brackets of an IPv6 address and without a trailing dot. */
function plainHost(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1)
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
}

/** The target of a host and a port. */
export function targetOfHost(scheme: 'http' | 'https', host: string, port: number): Target {
  const plain = typeof host === 'string' && host !== '' && !/[/?#@\\\s]/.test(host)
  if (!plain || !Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new ToolError('INPUT_INVALID', 'The host and port to connect to are not a host and a port.', {
      stage: 'execute',
    })
  }
  const bracketed = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
  const target = targetOf(parseUrl(`${scheme}://${bracketed}:${port}`))
  if (target === undefined || target.port !== port) {
    throw new ToolError('INPUT_INVALID', 'The host and port to connect to are not a host and a port.', {
      stage: 'execute',
    })
  }
  return target
}

function originOf(scheme: 'http' | 'https', host: string, port: number): string {
  const shown = host.includes(':') ? `[${host}]` : host
  return `${scheme}://${shown}${port === usualPorts[scheme] ? '' : `:${port}`}`
}
