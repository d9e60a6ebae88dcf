import type { IncomingHttpHeaders } from 'node:http'
import { ToolError } from '@gantry/contract'

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

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.[0-9.]+$/.test(host)
}

/**
 * Refuses requests that a web page sends from elsewhere. A page can have its own name lead to this machine, which makes
 * the browser take us for its server; so whoever can only be reached from here is asked by a name of here. Throws DENIED,
 * and PAYLOAD_INVALID without a Host.
 */
export function foreignCheck({ host, hosts, origins, secure }: ForeignOptions): (headers: IncomingHttpHeaders) => void {
  const named = hosts.length > 0 || isLoopback(host) ? new Set([...loopback, host, ...hosts].map(lower)) : undefined
  const pages = new Set(origins.map(lower))
  return ({ host: asked, origin }) => {
    if (asked === undefined) throw new ToolError('PAYLOAD_INVALID', 'The request names no Host.')
    const [, name, port = '0'] = hostForm.exec(lower(asked)) ?? []
    const known = named === undefined || (name !== undefined && named.has(name))
    if (!known || Number(port) > 65_535) {
      throw new ToolError('DENIED', 'The service is not known by this Host; add it to `service.hosts` if it should be.')
    }
    if (origin === undefined || pages.has(lower(origin))) return
    const page = URL.parse(origin)
    if (page?.host !== lower(asked) || (secure === true && page.protocol !== 'https:')) {
      throw new ToolError('DENIED', 'Pages of this Origin may not ask; add it to `service.origins` if they should.')
    }
  }
}

function lower(text: string): string {
  return text.toLowerCase()
}
