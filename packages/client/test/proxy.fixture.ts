import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** A wire between a client and a server that can break. */
export interface Wire {
  readonly url: string
  /** How many connections there have been. */
  readonly connections: number
  /** Breaks every connection, as a server does that dies. */
  cut(): void
  /** Breaks the next connection after so many bytes of its answer. */
  cutAfter(bytes: number): void
  /** Takes no connections any more, and breaks those that there are. */
  down(): Promise<void>
  up(): Promise<void>
}

export async function wireTo(t: TestContext, port: number): Promise<Wire> {
  const sockets = new Set<Socket>()
  const limits: number[] = []
  let connections = 0
  const join = (client: Socket): void => {
    connections += 1
    const server = connect(port, '127.0.0.1')
    let left = limits.shift() ?? Number.POSITIVE_INFINITY
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    client.on('data', (piece: Buffer) => server.write(piece))
    server.on('data', (piece: Buffer) => {
      client.write(piece.subarray(0, Math.max(0, left)))
      left -= piece.length
      if (left < 0) client.end(() => client.destroy())
    })
  }
  let server: Server = createServer(join)
  const listen = async (at: number): Promise<number> => {
    server = createServer(join).listen(at, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as { port: number }).port
  }
  const cut = (): void => {
    for (const socket of sockets) reset(socket)
  }
  const own = await listen(0)
  const down = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    cut()
    await closed
  }
  t.after(down)
  return {
    url: `http://127.0.0.1:${own}`,
    get connections() {
      return connections
    },
    cut,
    cutAfter: (bytes) => void limits.push(bytes),
    down,
    async up() {
      await listen(own)
    },
  }
}

/**
 * Resets a connection. One that has begun to end is only closed, because Node loses the handle of a socket that is reset
 * while its end is being sent, and the process then never exits.
 */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
