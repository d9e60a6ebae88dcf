import { Readable } from 'node:stream'
import type { EgressRequest } from './egress.ts'
import { broken, unreachable } from './failures.ts'
import type { HeaderList } from './headers.ts'
import { Incoming } from './incoming.ts'
import type { HeldPool } from './pools.ts'
import type { Target } from './target.ts'

/** One request to one origin, checked. */
export interface Exchange {
  readonly target: Target
  readonly url: URL
  readonly method: string
  readonly headers: HeaderList
  readonly body: EgressRequest['body']
  readonly signal: AbortSignal
  /** Whether nothing can have changed at the other side, by this request and those that led to it. */
  readonly safe: boolean
  readonly headersMs: number
  readonly idleMs: number
  /** Gives back the place of the connection; called once it is not used any more. */
  readonly leave: () => void
}

/** Methods that change nothing at the other side. */
export function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Sends a request and gives the response as soon as its headers are there. */
export function exchange({ pool, retired }: HeldPool, asked: Exchange): Promise<Incoming> {
  const { target, url, method, headers, body, signal, safe } = asked
  signal.throwIfAborted()
  const sending = body !== undefined && isStream(body) ? streamOf(body) : undefined
  const incoming = new Incoming(asked, retired, sending)
  const path = `${url.pathname}${url.search}`
  const sent = sending ?? (body as string | Uint8Array | undefined) ?? null
  pool.dispatch({ path, method, headers: headers as string[], body: sent, bodyTimeout: asked.idleMs }, incoming)
  return incoming.answered.catch((error: unknown) => {
    if (signal.aborted) throw signal.reason
    throw incoming.sent ? broken(target.origin, safe, error) : unreachable(target, error)
  })
}

/** A stream that may break at any time, also when undici no longer listens. */
function streamOf(body: AsyncIterable<Uint8Array>): Readable {
  return Readable.from(body).on('error', () => {})
}

function isStream(body: NonNullable<EgressRequest['body']>): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && Symbol.asyncIterator in body
}
