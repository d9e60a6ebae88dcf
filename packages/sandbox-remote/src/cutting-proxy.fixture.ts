import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A TCP proxy that cuts connections. */
export interface CuttingProxy {
  readonly port: number
  /** Connections that were cut so far. */
  readonly cuts: number
  /** Cuts every connection, and refuses new ones until `restore`. */
  cut(): void
  restore(): void
  close(): Promise<void>
}

/** `budget` gives the bytes from the host after which a new connection is cut; never when it is infinite. */
export async function startCuttingProxy(
  target: number,
  budget: () => number = () => Number.POSITIVE_INFINITY,
): Promise<CuttingProxy> {
  const open = new Set<Socket>()
  let [cuts, isCut] = [0, false]
  const server = createServer((near) => {
    if (isCut) return void near.destroy()
    const far = connect(target, '127.0.0.1')
    let left = budget()
    const end = (): void => {
      near.destroy()
      far.destroy()
      open.delete(near)
    }
    open.add(near)
    for (const socket of [near, far]) socket.on('error', end).on('close', end)
    near.on('data', (bytes) => far.write(bytes))
    far.on('data', (bytes) => {
      const part = bytes.subarray(0, left)
      left -= part.length
      if (part.length === bytes.length) return void near.write(part)
      cuts += 1
      // What is within the budget arrives before the cut.
      near.write(part, () => end())
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get cuts() {
      return cuts
    },
    cut() {
      isCut = true
      cuts += open.size
      for (const socket of open) socket.destroy()
    },
    restore() {
      isCut = false
    },
    async close() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
