import type { Buffer } from 'node:buffer'
import { createFrameReader, encodeFrame } from './frames.ts'
import { pieceBytes } from './genuine.ts'
import type { HostProcess } from './host-process.ts'

/** One host as its starter sees it. */
export interface HostClient {
  readonly pid: number | undefined
  /** Resolves when the host is gone; no frame comes after that. */
  readonly gone: Promise<void>
  /** The end of what it said on its diagnostics. */
  readonly lastWords: string
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /** Sets who hears what it says, in pieces of 64 KiB at most; throwing there ends the host, as a longer piece does. */
  listen(take: (kind: number, payload: Buffer) => void): void
  /** Ends it at once; resolves when it is gone. */
  kill(): Promise<void>
}

const keptWords = 8_192

export function connectHost(host: HostProcess): HostClient {
  const gone = Promise.withResolvers<void>()
  let words = ''
  let listener: (kind: number, payload: Buffer) => void = () => undefined
  const read = createFrameReader(pieceBytes, (kind, payload) => listener(kind, payload))
  const { channel, diagnostics } = host
  let broken = false
  channel.on('data', (piece: Buffer) => {
    try {
      if (!broken) read(piece)
    } catch {
      // Whoever breaks the protocol is not our host any more, and nothing else that it says is read.
      broken = true
      host.kill()
      channel.destroy()
    }
  })
  const closed = new Promise<void>((resolve) => channel.once('close', resolve))
  channel.on('error', () => undefined)
  diagnostics.on('error', () => undefined)
  diagnostics.on('data', (piece: Buffer) => {
    words = (words + piece.toString()).slice(-keptWords)
  })
  void Promise.all([host.exited, closed]).then(() => gone.resolve())
  return {
    pid: host.pid,
    gone: gone.promise,
    get lastWords() {
      return words
    },
    send(kind, ...parts) {
      if (channel.writable) channel.write(encodeFrame(kind, ...parts))
    },
    listen(take) {
      listener = take
    },
    async kill() {
      host.kill()
      await gone.promise
    },
  }
}
