import { once } from 'node:events'
import { chmodSync, createWriteStream, renameSync, type WriteStream } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** A file of lines that only its owner may read. */
export interface RecordFile {
  write(line: string): void
  /** What was written is in the file when the process ends. */
  end(): void
}

/** A hostile client can have lines written without an end; with the file before it, twice this much is kept. */
const mostBytes = 67_108_864

/** Appends to a file; a full one is renamed to `FILE.1`, in place of an earlier one. */
export async function openRecordFile(file: string, most = mostBytes): Promise<RecordFile> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  let stream = append(file)
  await once(stream, 'open')
  chmodSync(file, 0o600)
  let { size } = await stat(file)
  return {
    write(line) {
      const bytes = Buffer.byteLength(line)
      if (size > 0 && size + bytes > most && isMovedAside(file)) {
        // Lines that are still to be written go with the open file.
        stream.end()
        stream = append(file)
        size = 0
      }
      size += bytes
      stream.write(line)
    },
    end: () => void stream.end(),
  }
}

/** A folder in which nothing can be renamed any more must not end the server. */
function isMovedAside(file: string): boolean {
  try {
    renameSync(file, `${file}.1`)
    return true
  } catch {
    return false
  }
}

function append(file: string): WriteStream {
  return createWriteStream(file, { flags: 'a', mode: 0o600 })
}
