import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { Dispatcher } from 'undici'
import { onAbort } from '../resilience/abort.ts'
import type { EgressRequest } from './egress.ts'
import { broken, unreachable } from './failures.ts'
import type { HeaderList } from './headers.ts'
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
  /** Whether this request and the redirects before it have no side effect. */
  readonly safe: boolean
  readonly headersMs: number
  readonly idleMs: number
  /** Releases the connection slot; called once the connection is no longer in use. */
  readonly leave: () => void
}

/** Whether a method has no side effect. */
export function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Sends a request; resolves with the response when its headers have arrived. */
export function exchange({ pool, retired }: HeldPool, asked: Exchange): Promise<Incoming> {
  const { target, url, method, headers, body, signal, safe } = asked
  signal.throwIfAborted()
  const sending = isStream(body) ? streamOf(body) : undefined
  const incoming = new Incoming(asked, retired, sending)
  const path = `${url.pathname}${url.search}`
  const sent = isStream(body) ? sending : body
  pool.dispatch({ path, method, headers, body: sent ?? null, bodyTimeout: asked.idleMs }, incoming)
  return incoming.answered.catch((error: unknown) => {
    if (signal.aborted) throw signal.reason
    throw incoming.sent ? broken(target.origin, safe, error) : unreachable(target, error)
  })
}

/** A body stream whose errors are handled, also after undici has removed its listeners. */
function streamOf(body: AsyncIterable<Uint8Array>): Readable {
  return Readable.from(body).on('error', () => {})
}

function isStream(body: EgressRequest['body']): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && Symbol.asyncIterator in body
}

/** The reason of an abort, which can be any value, as an Error for undici. */
function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('The request was aborted.', { cause: reason })
}

/** Most bytes buffered ahead of the reader. */
const aheadBytes = 65_536

/**
 * A dispatched request and its response, as a handler of undici: the stream that undici creates per response costs more
 * than all checks of the guard.
 *
 * # States
 *
 * - `waiting`: in the queue of the pool, where undici observes no signal.
 * - `sent`: on a connection; from here on a failure may have had an effect.
 * - `answered`: the response headers have arrived.
 * - `over`: the last piece has arrived, or the request failed; the first failure is kept.
 *
 * | from     | to       | cause                                                                              |
 * | -------- | -------- | ---------------------------------------------------------------------------------- |
 * | waiting  | sent     | undici writes the request to a connection                                          |
 * | waiting  | over     | no connection is made, the signal aborts or new rules forbid it: it is never sent  |
 * | sent     | answered | the response headers arrive                                                        |
 * | sent     | over     | the connection fails, the signal aborts or `headersMs` passes                      |
 * | answered | over     | the body ends or fails, or the signal aborts; a failure drops unread pieces        |
 *
 * - Concurrency: one reader.
 * - Cancellation: the signal ends it in every state but `over`.
 * - Ownership: the reader reads all of it or destroys it.
 */
export class Incoming implements Dispatcher.DispatchHandler {
  sent = false
  status = 0
  /** By name in lower case; a list for a repeated name. */
  headers: IncomingHttpHeaders = {}
  readonly #asked: Exchange
  readonly #retired: AbortSignal
  readonly #sending: Readable | undefined
  readonly #answered = Promise.withResolvers<this>()
  readonly #stopListening: () => void
  readonly #clock: HeadersClock | undefined
  #controller: Dispatcher.DispatchController | undefined
  /** Pieces that arrived since the reader last drained the buffer; cleared when drained, so that it stays bounded. */
  #pieces: Uint8Array[] = []
  #taken = 0
  #ahead = 0
  #over = false
  #failure: { readonly error: unknown } | undefined
  #wake: (() => void) | undefined

  /** `retired` is aborted when new rules forbid the request; `sending` is its body when that is a stream. */
  constructor(asked: Exchange, retired: AbortSignal, sending: Readable | undefined) {
    this.#asked = asked
    this.#retired = retired
    this.#sending = sending
    this.#clock = asked.headersMs === 0 ? undefined : new HeadersClock(asked.headersMs, () => this.#abort(this.#late()))
    this.#stopListening = onAbort(asked.signal, () => this.#abort(asked.signal.reason))
  }

  /** Resolves when the headers have arrived; rejects with the failure otherwise. */
  get answered(): Promise<this> {
    return this.#answered.promise
  }

  /** Whether no more pieces will arrive; buffered pieces may still be taken. */
  get over(): boolean {
    return this.#over
  }

  /** The next buffered piece; undefined when there is none. Throws the failure of a body that ended early. */
  take(): Uint8Array | undefined {
    this.#asked.signal.throwIfAborted()
    if (this.#failure !== undefined) throw this.#failure.error
    const piece = this.#pieces[this.#taken]
    if (piece === undefined) this.#forget()
    else this.#taken += 1
    return piece
  }

  /** Waits for another piece or the end, and resumes the connection: the reader has drained the buffer. */
  more(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    this.#controller?.resume()
    return promise
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const piece = this.take()
      if (piece !== undefined) yield piece
      else if (this.#over) return
      else await this.more()
    }
  }

  /** Discards the rest of the body. */
  destroy(): void {
    this.#forget()
    if (!this.#over) this.#abort(Object.assign(new Error('The response was discarded.'), { code: 'UND_ERR_ABORTED' }))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const stopped = this.#failure ?? (this.#retired.aborted ? { error: this.#retired.reason } : undefined)
    if (stopped !== undefined) {
      controller.abort(asError(stopped.error))
      return
    }
    this.sent = true
    this.#controller = controller
    this.#clock?.begin()
  }

  onBodySent(): void {
    this.#clock?.begin()
  }

  onRequestSent(): void {
    this.#clock?.begin()
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    this.#clock?.end()
    this.status = status
    this.headers = headers
    this.#answered.resolve(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Uint8Array): void {
    this.#pieces.push(piece)
    this.#ahead += piece.byteLength
    if (this.#ahead >= aheadBytes) controller.pause()
    this.#wake?.()
  }

  onResponseEnd(): void {
    this.#end()
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: unknown): void {
    this.#fail(error)
  }

  #abort(error: unknown): void {
    if (this.#over) return
    this.#fail(error)
    this.#controller?.abort(asError(error))
  }

  #fail(error: unknown): void {
    if (this.#over) return
    this.#failure = { error }
    this.#forget()
    this.#answered.reject(error)
    this.#sending?.destroy()
    this.#end()
  }

  #forget(): void {
    if (this.#pieces.length > 0) this.#pieces = []
    this.#taken = 0
    this.#ahead = 0
  }

  #end(): void {
    this.#over = true
    this.#asked.leave()
    this.#clock?.end()
    this.#stopListening()
    this.#wake?.()
  }

  #late(): ToolError {
    const { target, safe, headersMs } = this.#asked
    const options = { effect: safe ? 'none' : 'possible', retryable: safe } as const
    return new ToolError('BACKEND_FAILED', `${target.origin} sent no response within ${headersMs} ms.`, options)
  }
}

/**
 * Fails a request whose response headers do not arrive in time. Each piece of the request body that is sent restarts the
 * timeout; informational responses (1xx) do not.
 */
class HeadersClock {
  readonly #ms: number
  readonly #expire: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number, expire: () => void) {
    this.#ms = ms
    this.#expire = expire
  }

  begin(): void {
    this.end()
    this.#timer = setTimeout(this.#expire, this.#ms)
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}
