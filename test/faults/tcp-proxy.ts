import { connect, createServer, type Socket } from 'node:net'

/** What the proxy does with a statement. */
export type Fate = 'pass' | 'cut before' | 'cut after'

export interface TcpProxy {
  /** The URL of a database with the proxy's address. */
  through(url: string): string
  /** Decides on each statement; `cut after` drops the response after the server has executed it. */
  decide(fate: () => Fate): void
  /** Ends every connection. */
  cut(): void
  /** Old and new connections stay open without data until `open`. */
  blackhole(): void
  /** Delays all data. */
  delay(ms: number): void
  open(): void
  readonly cuts: { before: number; after: number }
  close(): Promise<void>
}

/** A TCP proxy between service and database that injects network faults. */
export async function startProxy(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
  const pairs = new Set<{ readonly ours: Socket; readonly theirs: Socket }>()
  const cuts = { before: 0, after: 0 }
  let fate: () => Fate = () => 'pass'
  let silent = false
  let lateMs = 0

  const server = createServer((ours) => {
    const theirs = connect(target)
    const pair = { ours, theirs }
    pairs.add(pair)
    let settled = false
    let doomed = false
    const end = (): void => {
      pairs.delete(pair)
      ours.destroy()
      theirs.destroy()
    }
    const later = (work: () => void): void => void (lateMs > 0 ? setTimeout(work, lateMs) : work())
    for (const socket of [ours, theirs]) {
      socket.on('error', end)
      socket.on('close', end)
    }
    ours.on('data', (chunk) => {
      if (silent) return
      const decided = settled && !doomed ? fate() : 'pass'
      if (decided === 'cut before') {
        cuts.before += 1
        return end()
      }
      doomed ||= decided === 'cut after'
      later(() => theirs.write(chunk))
    })
    theirs.on('data', (chunk) => {
      if (silent) return
      const idle = saysReady(chunk)
      settled ||= idle
      if (!doomed) return later(() => ours.write(chunk))
      if (!idle) return
      cuts.after += 1
      end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const cut = (): void => {
    for (const { ours, theirs } of [...pairs]) {
      ours.destroy()
      theirs.destroy()
    }
  }
  return {
    cuts,
    through(url) {
      const changed = new URL(url)
      changed.port = String(port)
      return changed.href
    },
    decide(next) {
      fate = next
    },
    cut,
    blackhole() {
      silent = true
    },
    delay(ms) {
      lateMs = ms
    },
    open() {
      // Dropped data cannot be recovered, so that these connections are useless.
      if (silent) cut()
      silent = false
      lateMs = 0
    },
    async close() {
      cut()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Whether PostgreSQL's response ends with ReadyForQuery: the statement is executed and committed. */
function saysReady(chunk: Buffer): boolean {
  return chunk.length >= 6 && chunk.at(-6) === 0x5a && chunk.readUInt32BE(chunk.length - 5) === 5
}
