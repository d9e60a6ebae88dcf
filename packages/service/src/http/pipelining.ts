import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * The turn of a request on its connection: true once all that came before it there are answered, false when the connection
 * is gone before that, and nobody is left to answer.
 */
export type Pipelining = (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>

/** Requests of one connection that may wait for their turn before it is read no further. */
const mostWaiting = 4

/**
 * Node hands over every request of a connection as soon as it is read, however many come without waiting for an answer;
 * all at once they could take any amount of memory. A response has the connection when those before it are out.
 */
export function createPipelining(): Pipelining {
  const lines = new WeakMap<Socket, Set<(mine: boolean) => void>>()
  const lineOf = (socket: Socket): Set<(mine: boolean) => void> => {
    const known = lines.get(socket)
    if (known !== undefined) return known
    const line = new Set<(mine: boolean) => void>()
    lines.set(socket, line)
    socket.once('close', () => {
      for (const settle of line) settle(false)
    })
    // Node reads on by itself once a request is answered, or when somebody reads its body.
    socket.on('resume', () => {
      if (line.size > mostWaiting) socket.pause()
    })
    return line
  }
  return ({ socket }, response) => {
    if (response.socket !== null) return true
    if (socket.destroyed) return false
    const line = lineOf(socket)
    return new Promise((resolve) => {
      const settle = (mine: boolean): void => {
        line.delete(settle)
        if (mine && line.size === mostWaiting) socket.resume()
        resolve(mine)
      }
      line.add(settle)
      response.once('socket', () => settle(true))
      if (line.size > mostWaiting) socket.pause()
    })
  }
}
