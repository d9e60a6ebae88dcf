import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Content, PutOptions, StoredFile } from '../artifact-store.ts'
import { createDigest } from '../digest.ts'
import { piecesOf } from '../pieces.ts'

/** Content that is here as a whole, so that its digest is known before its first byte is sent. */
export interface Gathered extends StoredFile {
  /** The bytes from `start` on, up to but without `end`. */
  part(start: number, end: number): Promise<Uint8Array>
  close(): Promise<void>
}

/** What is larger waits in a file. */
export const memoryBytes = 8_388_608

/**
 * Takes content in, up to the limit: in memory, or in a file without a name when it comes in pieces and is large. So it
 * takes as much room in the folder for temporary files as is being put at a time, and nothing stays when we die.
 */
export async function gather(content: Content, { maxBytes, signal }: PutOptions): Promise<Gathered> {
  const digest = createDigest()
  const held: Uint8Array[] = []
  let file: FileHandle | undefined
  let bytes = 0
  try {
    for await (const piece of piecesOf(content, signal)) {
      bytes += piece.length
      if (bytes > maxBytes) {
        throw new ToolError('RESULT_TOO_LARGE', `The file is larger than ${maxBytes} bytes, which is the limit.`)
      }
      digest.add(piece)
      held.push(piece)
      if (content instanceof Uint8Array || (file === undefined && bytes <= memoryBytes)) continue
      file ??= await onDisk(openNameless())
      for (const one of held.splice(0)) await onDisk(file.appendFile(one))
    }
    signal.throwIfAborted()
  } catch (error) {
    await file?.close()
    throw error
  }
  const known = { digest: digest.end(), bytes }
  return file === undefined ? inMemory(held, known) : inFile(file, known)
}

function inMemory(held: readonly Uint8Array[], known: StoredFile): Gathered {
  const whole = held.length === 1 && held[0] !== undefined ? held[0] : Buffer.concat(held)
  return { ...known, part: async (start, end) => whole.subarray(start, end), close: async () => undefined }
}

function inFile(file: FileHandle, known: StoredFile): Gathered {
  return {
    ...known,
    async part(start, end) {
      const room = Buffer.alloc(end - start)
      for (let at = 0; at < room.length; ) {
        const { bytesRead } = await onDisk(file.read(room, at, room.length - at, start + at))
        if (bytesRead === 0) throw diskFault(undefined)
        at += bytesRead
      }
      return room
    },
    close: () => file.close(),
  }
}

async function openNameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `gantry-upload-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}

function onDisk<T>(work: Promise<T>): Promise<T> {
  return work.catch((cause: unknown) => {
    throw diskFault(cause)
  })
}

function diskFault(cause: unknown): ToolError {
  const message = `The folder for temporary files, ${tmpdir()}, is full or cannot be written.`
  return new ToolError('STORE_UNAVAILABLE', message, { cause })
}
