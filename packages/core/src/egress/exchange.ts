import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { EgressRequest } from './egress.ts'
import { broken, unreachable } from './failures.ts'
import type { HeaderMap } from './headers.ts'
import type { HeldPool } from './pools.ts'
import type { Target } from './target.ts'
import { unlessAborted } from './unless-aborted.ts'
import { Watch, watchKey } from './watch.ts'

/** One request to one origin, checked. */
export interface Exchange {
  readonly target: Target
  readonly url: URL
  readonly method: string
  readonly headers: HeaderMap
  readonly body: EgressRequest['body']
  readonly signal: AbortSignal
  /** Whether nothing can have changed at the other side, by this request and those that led to it. */
  readonly safe: boolean
  readonly headersMs: number
  readonly idleMs: number
}

/** Methods that change nothing at the other side. */
export function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Sends a request and gives the response as soon as its headers are there. */
export async function exchange({ pool, retired }: HeldPool, asked: Exchange): Promise<Dispatcher.ResponseData> {
  const { target, url, method, headers, body, signal, safe } = asked
  const watch = new Watch(target.origin, safe, asked.headersMs, retired)
  try {
    const sending = pool.request({
      path: `${url.pathname}${url.search}`,
      method,
      headers: headers as Iterable<[string, string]>,
      body: body === undefined ? null : isStream(body) ? Readable.from(body) : body,
      signal,
      bodyTimeout: asked.idleMs,
      [watchKey]: watch,
    } as Dispatcher.RequestOptions<null>)
    // While a request waits for a connection, undici does not look at the signal; later it drops what was aborted.
    const response = await unlessAborted(sending, signal)
    // The body may break before anybody reads it, and an error without a listener would end the process.
    response.body.on('error', () => {})
    return response
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw watch.sent ? broken(target.origin, safe, error) : unreachable(target, error)
  } finally {
    watch.end()
  }
}

function isStream(body: NonNullable<EgressRequest['body']>): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && Symbol.asyncIterator in body
}
