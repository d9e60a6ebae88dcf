import type { IncomingMessage } from 'node:http'
import { ToolError } from '@gantry/contract'
import { isLoopback } from '../config/service-address.ts'

const hostForm = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?$/i
const loopback: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

export interface ForeignOptions {
  /** The address that the server is bound to. */
  readonly host: string
  /** Names under which it may be asked besides. */
  readonly hosts: readonly string[]
  /** Origins of web pages that may ask it, besides its own. */
  readonly origins: readonly string[]
  /** It speaks TLS itself, so that a page which came without is not its own. */
  readonly secure?: boolean
}

/** What the check reads of a request. */
export type Addressed = Pick<IncomingMessage, 'url' | 'headers' | 'headersDistinct'>

/**
 * Refuses requests that are not for this server: those that name no host, two, or something that is none, and those that a
 * web page sends from elsewhere. A page can have its own name resolve to this machine, and its browser then sends its
 * requests here; so a server on a loopback address answers to loopback names only. Throws PAYLOAD_INVALID or DENIED.
 */
export function foreignCheck({ host, hosts, origins, secure }: ForeignOptions): (request: Addressed) => void {
  const named = hosts.length > 0 || isLoopback(host) ? new Set([...loopback, host, ...hosts].map(lower)) : undefined
  const pages = new Set(origins.map(lower))
  return (request) => {
    const [asked, name] = hostOf(request)
    const { origin } = request.headers
    if (named !== undefined && !named.has(name)) {
      throw new ToolError('DENIED', 'The service is not known by this Host; add it to `service.hosts` if it should be.')
    }
    if (origin === undefined || pages.has(lower(origin))) return
    const page = URL.parse(origin)
    if (page?.host !== asked || (secure === true && page.protocol !== 'https:')) {
      throw new ToolError('DENIED', 'Pages of this Origin may not ask; add it to `service.origins` if they should.')
    }
  }
}

const absoluteForm = /^https?:\/\/([^/?#]*)/i

/**
 * A request target without scheme and authority. Those of an absolute target stay when they name another host than the
 * Host header, for the check to refuse: what reads one of the two would otherwise serve another site than what reads both.
 */
export function originForm({ url = '', headers: { host = '' } }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  const [whole, authority] = absoluteForm.exec(url) ?? []
  if (whole === undefined || authority === undefined || lower(authority) !== lower(host)) return url
  const rest = url.slice(whole.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** The authority and the name that a request is for, in lower case. Throws PAYLOAD_INVALID. */
function hostOf({ url = '', headersDistinct: { host: asked = [] } }: Addressed): readonly [string, string] {
  const [first = '', ...others] = asked.map(lower)
  if (first === '' || others.length > 0) throw misaddressed('must have exactly one Host header')
  const [, name, port = '0'] = hostForm.exec(first) ?? []
  if (name === undefined || Number(port) > 65_535) throw misaddressed('has a Host header that is not a host and a port')
  if (!url.startsWith('/') && url !== '*') throw misaddressed('has a target for another host than its Host header')
  return [first, name]
}

function misaddressed(what: string): ToolError {
  return new ToolError('PAYLOAD_INVALID', `The request ${what}.`)
}

function lower(text: string): string {
  return text.toLowerCase()
}
