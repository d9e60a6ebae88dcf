import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Identity, ToolError } from '@gantry/contract'
import type { Connections } from './connections.ts'
import { createPipelining, type Pipelining } from './pipelining.ts'

/** The time of one request, as seen by whoever works on it. */
export interface RequestScope {
  /** Aborts when the client has gone. */
  readonly gone: AbortSignal
  /** Aborts when the client has gone, the door closes, or `end` is called. */
  readonly stop: AbortSignal
  /** Aborts `stop` for another reason: whoever only waits or listens goes no further. */
  end(reason: ToolError): void
}

/** Knows which connections and requests are inside, so that a server that closes can tell them. */
export interface RequestTracker {
  readonly closing: boolean
  connect(socket: Socket): void
  /** When a request may enter: those that come behind each other on a connection do so one by one. */
  readonly pipelining: Pipelining
  enter(response: ServerResponse): RequestScope
  /** A request of a connection was authenticated; see `Connections`. */
  authenticated(socket: Socket, identity: Identity): void
  /** The response that a connection is, or was last, busy with. */
  current(socket: Socket): ServerResponse | undefined
  /**
   * Tells those who only wait that they need not; those who work may finish. A connection goes when it has nothing to do:
   * one that never had is not idle in the eyes of Node, which would wait for it.
   */
  close(): void
}

export function createRequestTracker(connections: Connections): RequestTracker {
  const sockets = new Map<Socket, ServerResponse | undefined>()
  const inside = new Set<AbortController>()
  let closing = false
  return {
    get closing() {
      return closing
    },
    connect(socket) {
      sockets.set(socket, undefined)
      socket.once('close', () => sockets.delete(socket))
    },
    pipelining: createPipelining(),
    enter(response) {
      const [gone, stop] = [new AbortController(), new AbortController()]
      const { socket } = response
      if (socket !== null) sockets.set(socket, response)
      const end = socket === null ? undefined : connections.begin(socket, response.req)
      inside.add(stop)
      response.on('error', () => undefined)
      response.once('close', () => {
        inside.delete(stop)
        end?.()
        if (closing) socket?.destroySoon()
        if (response.writableFinished) return
        const left = new ToolError('CANCELLED', 'The client has gone.')
        gone.abort(left)
        stop.abort(left)
      })
      return { gone: gone.signal, stop: stop.signal, end: (reason) => stop.abort(reason) }
    },
    authenticated: (socket, identity) => connections.authenticated(socket, identity),
    current: (socket) => sockets.get(socket),
    close() {
      closing = true
      const reason = new ToolError('SERVICE_UNAVAILABLE', 'The service is about to stop.')
      for (const stop of inside) stop.abort(reason)
      for (const [socket, response] of sockets) if (response?.writableFinished ?? true) socket.destroy()
    },
  }
}
