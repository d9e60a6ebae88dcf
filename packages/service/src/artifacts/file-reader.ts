import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { ByteRange } from './artifact-store.ts'

export interface FileReaderOptions {
  readonly range: ByteRange
  readonly signal: AbortSignal
  /** Sees every piece, and throws at the end when they are not what they should be. */
  readonly check?: { add(piece: Uint8Array): void; end(): void }
  /** What an error of the system is to the reader. */
  fault(cause: unknown): Error
}

const pieceBytes = 65_536

/** A part of an open file as a stream, which owns the file from here on. */
export function readPieces(handle: FileHandle, { range, signal, check, fault }: FileReaderOptions): Readable {
  const pieces = checked(piecesOf(handle, range, fault), check)
  const stop = (): void => void stream.destroy(signal.reason)
  const stream = new Readable({
    read() {
      pieces.next().then(
        ({ value, done }) => this.push(done ? null : value),
        (error: Error) => this.destroy(error),
      )
    },
    destroy(error, callback) {
      signal.removeEventListener('abort', stop)
      const closed = (): void => callback(error)
      handle.close().then(closed, closed)
    },
  })
  // One that nobody listens to must not end the process; whoever reads it hears of the error all the same.
  stream.on('error', () => undefined)
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  return stream
}

async function* piecesOf(handle: FileHandle, { start, end }: ByteRange, fault: FileReaderOptions['fault']) {
  for (let at = start; at < end; ) {
    const room = Buffer.allocUnsafe(Math.min(pieceBytes, end - at))
    const { bytesRead } = await handle.read(room, 0, room.length, at).catch((cause: unknown) => {
      throw fault(cause)
    })
    if (bytesRead === 0) return
    at += bytesRead
    yield room.subarray(0, bytesRead)
  }
}

/** The last piece comes only once all of them passed the check. */
async function* checked(pieces: AsyncIterable<Uint8Array>, check: FileReaderOptions['check']) {
  let last: Uint8Array | undefined
  for await (const piece of pieces) {
    check?.add(piece)
    if (last !== undefined) yield last
    last = piece
  }
  check?.end()
  if (last !== undefined) yield last
}
