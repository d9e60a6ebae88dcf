import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { ByteRange } from './artifact-store.ts'
import { type CheckedStreamOptions, checkedStream } from './checked-stream.ts'

export interface FileReaderOptions extends Omit<CheckedStreamOptions, 'close'> {
  readonly range: ByteRange
  /** What an error of the system is to the reader. */
  fault(cause: unknown): Error
}

const pieceBytes = 65_536

/** A part of an open file as a stream, which owns the file from here on. */
export function readPieces(handle: FileHandle, { range, fault, ...options }: FileReaderOptions): Readable {
  return checkedStream(piecesOf(handle, range, fault), { ...options, close: () => handle.close() })
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
