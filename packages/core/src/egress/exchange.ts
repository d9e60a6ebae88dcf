import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { Dispatcher } from 'undici'
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

/** What is accepted of a body while nobody reads it. */
const aheadBytes = 65_536

/**
 * A request at the pool and what comes back, heard of by undici directly: the stream that it would make of every
 * response costs more than all the checks of the guard.
 *
 * It *waits* for a connection, where undici does not look at any signal; is *sent*, after which a failure may have had
 * an effect; is *answered* when its headers are there; and is then *over*, with its last piece or with a failure, of
 * which the first stays. What waited while the rules changed, or failed while it waited, is never sent. Pieces that
 * nobody has read when it fails are dropped.
 * - Concurrency: one reader.
 * - Cancellation: the signal ends it in every state but the last.
 * - Ownership: the reader takes all of it or destroys it.
 */
export class Incoming implements Dispatcher.DispatchHandler {
  sent = false
  status = 0
  /** By name in lower case; a list where a name came more than once. */
  headers: IncomingHttpHeaders = {}
  readonly #asked: Exchange
  readonly #retired: AbortSignal
  readonly #sending: Readable | undefined
  readonly #answered = Promise.withResolvers<this>()
  readonly #onAbort = (): void => this.#abort(this.#asked.signal.reason)
  readonly #clock: HeadersClock | undefined
  #controller: Dispatcher.DispatchController | undefined
  /** All that came since the reader last had nothing to take, so that neither it nor its bytes grow without an end. */
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
    asked.signal.addEventListener('abort', this.#onAbort)
  }

  /** Resolves when the headers are there; rejects with what came instead. */
  get answered(): Promise<this> {
    return this.#answered.promise
  }

  /** Whether nothing more will come; what came may still be taken. */
  get over(): boolean {
    return this.#over
  }

  /** The next piece that is here; undefined when there is none, or no more. Throws what ended the body too early. */
  take(): Uint8Array | undefined {
    this.#asked.signal.throwIfAborted()
    if (this.#failure !== undefined) throw this.#failure.error
    const piece = this.#pieces[this.#taken]
    if (piece === undefined) this.#forget()
    else this.#taken += 1
    return piece
  }

  /** Waits for another piece, or the end; whoever waits has taken all there was, so that more may come. */
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

  /** Lets go of what nobody will read. */
  destroy(): void {
    this.#forget()
    if (!this.#over) this.#abort(Object.assign(new Error('The response was let go.'), { code: 'UND_ERR_ABORTED' }))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const stopped = this.#failure ?? (this.#retired.aborted ? { error: this.#retired.reason } : undefined)
    if (stopped !== undefined) {
      controller.abort(stopped.error as Error)
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
    this.#controller?.abort(error as Error)
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
    this.#asked.signal.removeEventListener('abort', this.#onAbort)
    this.#wake?.()
  }

  #late(): ToolError {
    const { target, safe, headersMs } = this.#asked
    const options = { effect: safe ? 'none' : 'possible', retryable: safe } as const
    return new ToolError('BACKEND_FAILED', `${target.origin} sent no response within ${headersMs} ms.`, options)
  }
}

/**
 * Ends a request whose headers do not come in time: each piece of the request that goes out begins the time anew;
 * interim responses (1xx) do not.
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
