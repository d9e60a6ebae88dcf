import { ToolError } from '@gantry/contract'

/** Where a connection goes, as WHATWG URL parsing understands it: never a raw string of a caller. */
export interface Target {
  readonly scheme: 'http' | 'https'
  /** A name in lower case without a dot at its end, or an IP address in its usual form without brackets. */
  readonly host: string
  readonly port: number
  /** As a rule would name it. */
  readonly origin: string
}

const usualPorts = { http: 80, https: 443 } as const

/** Parses a URL, or says that it is none. */
export function parseUrl(url: string | URL, base?: URL): URL {
  try {
    // Nobody changes a URL that was made for the request, so it need not be parsed twice.
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

/** Without the brackets of an IPv6 address, or the dot that may end a name. */
function plainHost(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1)
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
}

/** The target of a host and a port that did not come as a URL. */
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
