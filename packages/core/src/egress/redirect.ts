import { ToolError } from '@gantry/contract'
import type { EgressRequest } from './egress.ts'
import { isSafe } from './exchange.ts'
import { type HeaderList, withoutBody, withoutCredentials } from './headers.ts'
import { parseUrl } from './target.ts'

/** One request on the way to a response. */
export interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: HeaderList
  readonly body: EgressRequest['body']
}

const redirects = new Set([301, 302, 303, 307, 308])

/** Whether a response sends the caller elsewhere. */
export function isRedirect(status: number): boolean {
  return redirects.has(status)
}

/** The next request, before its own checks; throws EGRESS_DENIED for a redirect that is not followed anywhere. */
export function nextHop(hop: Hop, status: number, location: string): Hop {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\\\x00-\x20\x7f]/.test(location)) throw refuse('with characters that browsers and servers read differently')
  const url = parseLocation(location, hop.url)
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') throw refuse('from https to http')
  const toGet = status === 303 ? hop.method !== 'HEAD' : status < 303 && hop.method === 'POST'
  const kept = toGet ? { ...hop, method: 'GET', headers: withoutBody(hop.headers), body: undefined } : hop
  if (url.origin === hop.url.origin) return again({ ...kept, url })
  if (!isSafe(kept.method) || kept.body !== undefined)
    throw refuse('of a request that changes something to another origin')
  return { ...kept, url, headers: withoutCredentials(kept.headers) }
}

/** A stream has gone out already and cannot be sent twice. */
function again(hop: Hop): Hop {
  if (hop.body === undefined || typeof hop.body === 'string' || hop.body instanceof Uint8Array) return hop
  throw new ToolError('BACKEND_FAILED', 'A redirect asks for a body again that was a stream and is gone.')
}

function parseLocation(location: string, base: URL): URL {
  const url = URL.parse(location, base.href)
  if (url === null) throw refuse('to something that is not a URL')
  return parseUrl(url)
}

function refuse(what: string): ToolError {
  return new ToolError('EGRESS_DENIED', `A redirect ${what} is not followed.`)
}
