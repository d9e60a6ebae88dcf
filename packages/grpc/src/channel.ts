import { type ClientHttp2Session, constants } from 'node:http2'
import { ToolError } from '@gantry/contract'
import { type CallRequest, exchange } from './exchange.ts'
import { within } from './within.ts'

/**
 * One connection to a gRPC server at a time, shared by all calls.
 * Closed at first. A call opens it, and calls that come meanwhile wait for the same attempt; a failed attempt leaves it
 * closed, and the next call tries again. Open, it takes calls until the server or the network ends it or the server
 * says that it takes no more; then it is closed for new calls while running ones go on. `close` is for good.
 */
export interface Channel {
  /** Sends one message and gives the answers as they come; a reader that waits makes the server wait. */
  call(request: CallRequest): AsyncGenerator<Buffer, void>
  /** Lets running calls end until the signal aborts, then cuts them off. */
  close(signal: AbortSignal): Promise<void>
}

/** Opens one session; `ended` is told when it takes no more calls. */
export type OpenSession = (signal: AbortSignal, ended: () => void) => Promise<ClientHttp2Session>

const pingMs = 10_000

export function createChannel(open: OpenSession): Channel {
  const closing = new AbortController()
  const running = new WeakMap<ClientHttp2Session, number>()
  let opening: Promise<ClientHttp2Session> | undefined

  const session = async (signal: AbortSignal): Promise<ClientHttp2Session> => {
    while (true) {
      if (closing.signal.aborted) throw closing.signal.reason
      const attempt = opening ?? begin()
      const used = await within(attempt, signal)
      if (!used.closed && !used.destroyed) return used
      // It has ended, and only its events have not come round yet.
      leave(attempt)
    }
  }
  const begin = (): Promise<ClientHttp2Session> => {
    const attempt = open(closing.signal, () => leave(attempt))
    attempt.catch(() => leave(attempt))
    opening = attempt
    return attempt
  }
  const leave = (attempt: Promise<ClientHttp2Session>): void => {
    if (opening === attempt) opening = undefined
  }
  /** An idle connection must not keep the process alive, a busy one must. */
  const count = (used: ClientHttp2Session, change: 1 | -1): void => {
    const calls = (running.get(used) ?? 0) + change
    running.set(used, calls)
    if (used.destroyed) return
    if (calls === 0) used.unref()
    else used.ref()
  }
  return {
    async *call(request) {
      const { signal } = request
      signal.throwIfAborted()
      const used = await session(signal)
      count(used, 1)
      try {
        yield* exchange(used, request)
      } finally {
        count(used, -1)
        if (signal.aborted) probe(used)
      }
    },
    async close(signal) {
      const last = opening
      closing.abort(new ToolError('BACKEND_UNAVAILABLE', 'The gRPC backend is closed.', { retryable: false }))
      const used = await last?.catch(() => undefined)
      if (used === undefined || used.destroyed) return
      await ended(used, signal)
    },
  }
}

/** Nothing but a ping can tell a silent server from a dead connection, which every later call would wait on. */
function probe(session: ClientHttp2Session): void {
  if (session.destroyed || session.closed) return
  const timer = setTimeout(() => session.destroy(new Error('The server does not answer a ping.')), pingMs)
  timer.unref()
  const sent = session.ping(() => clearTimeout(timer))
  if (!sent) clearTimeout(timer)
}

/** Resolves when the session has closed; what still runs when the signal aborts is cut off. */
function ended(session: ClientHttp2Session, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cut = (): void => session.destroy(undefined, constants.NGHTTP2_CANCEL)
    session.once('close', () => {
      signal.removeEventListener('abort', cut)
      resolve()
    })
    session.close()
    if (signal.aborted) cut()
    else signal.addEventListener('abort', cut, { once: true })
  })
}
