import { chmodSync } from 'node:fs'
import { connect, createServer, type ListenOptions, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'

/** A listener on the host that is there to be reached, or not. */
export interface Listener {
  readonly port: number
  /** How many have connected. */
  connections(): number
  /** How many are connected. */
  held(): number
  close(): Promise<void>
}

/** Listens, and greets each with what `greet` writes. */
export async function listenOnHost(
  where: ListenOptions,
  greet: (socket: Socket) => void = (socket) => void socket.end('here'),
): Promise<Listener> {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    connections += 1
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)))
    greet(socket)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(where, resolve))
  const address = server.address()
  if (typeof where.path === 'string' && !where.path.startsWith('\0')) chmodSync(where.path, 0o777)
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    connections: () => connections,
    held: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** How many came while something was done. */
export async function counted(where: ListenOptions, meanwhile: (port: number) => Promise<unknown>): Promise<number> {
  const listener = await listenOnHost(where)
  try {
    await meanwhile(listener.port)
    // Whoever connected before the program ended is in the queue by now.
    await new Promise((resolve) => setImmediate(resolve))
    return listener.connections()
  } finally {
    await listener.close()
  }
}

/** Whether somebody answers at an address, seen from the host. */
export function answers(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, host, () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** The loopback and whatever else the host is known by. */
export function hostAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  return [
    '127.0.0.1',
    ...all.filter(({ internal, family }) => !internal && family === 'IPv4').map((one) => one.address),
  ]
}
