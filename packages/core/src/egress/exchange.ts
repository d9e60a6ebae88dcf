import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { Dispatcher } from 'undici'
import type { EgressRequest } from './egress.ts'
import { broken, unreachable } from './failures.ts'
import type { HeaderMap } from './headers.ts'
import type { HeldPool } from './pools.ts'
import type { Target } from './target.ts'
import { unlessAborted } from './unless-aborted.ts'

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
  const watch = watchSending(asked, retired)
  try {
    const sending = pool.compose(watch.interceptor).request({
      path: `${url.pathname}${url.search}`,
      method,
      headers: [...headers].flat(),
      body: body === undefined ? null : isStream(body) ? Readable.from(body) : body,
      signal,
      bodyTimeout: asked.idleMs,
    })
    // While a request waits for a connection, undici does not look at the signal; later it drops what was aborted.
    const response = await unlessAborted(sending, signal)
    // The body may break before anybody reads it, and an error without a listener would end the process.
    response.body.on('error', () => {})
    return response
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw watch.sent() ? broken(target.origin, safe, error) : unreachable(target, error)
  } finally {
    watch.end()
  }
}

/**
 * Notes when a request begins to be sent, which decides what a failure means, and stops one that waited in a pool
 * while the rules changed. Ends it when no headers come in time: each piece of the request that goes out begins the
 * time anew; interim responses (1xx) do not.
 */
function watchSending({ target: { origin }, safe, headersMs: ms }: Exchange, retired: AbortSignal) {
  let sent = false
  let timer: NodeJS.Timeout | undefined
  let controller: Dispatcher.DispatchController | undefined
  const giveUp = (): void => {
    const options = { effect: safe ? 'none' : 'possible', retryable: safe } as const
    controller?.abort(new ToolError('BACKEND_FAILED', `${origin} sent no response within ${ms} ms.`, options))
  }
  const end = (): void => clearTimeout(timer)
  const begin = (): void => {
    end()
    if (ms > 0) timer = setTimeout(giveUp, ms)
  }
  const interceptor: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
    dispatch(options, {
      onRequestStart(given, context) {
        if (retired.aborted) return given.abort(retired.reason)
        sent = true
        controller = given
        begin()
        handler.onRequestStart?.(given, context)
      },
      onBodySent(chunk) {
        begin()
        handler.onBodySent?.(chunk)
      },
      onRequestSent() {
        begin()
        handler.onRequestSent?.()
      },
      onResponseStart: (given, status, headers, text) => handler.onResponseStart?.(given, status, headers, text),
      onResponseData: (given, chunk) => handler.onResponseData?.(given, chunk),
      onResponseEnd: (given, trailers) => handler.onResponseEnd?.(given, trailers),
      onResponseError: (given, error) => handler.onResponseError?.(given, error),
    })
  return { interceptor, end, sent: () => sent }
}

function isStream(body: NonNullable<EgressRequest['body']>): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && Symbol.asyncIterator in body
}
