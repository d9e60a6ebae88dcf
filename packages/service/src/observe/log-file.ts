import { constants } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/**
 * The log in the data folder, for `gantry logs`. It is written in the background, readable by its owner alone, and bounded:
 * one file and its predecessor.
 * - Errors: lines that cannot be written are dropped and counted in the next line; the log on stderr has them.
 * - Concurrency: several processes may append to one file.
 */
export interface LogFile {
  write(line: string): void
  /** Writes what is left. */
  close(): Promise<void>
}

export interface LogFileOptions {
  /** A file of this size becomes the predecessor. */
  readonly maxBytes?: number
}

/** The log of a data folder. */
export function logFileIn(data: string): string {
  return join(data, 'service.log')
}

/** The file that a full log becomes. */
export function previousLogFile(file: string): string {
  return `${file}.1`
}

const flushMs = 200
/** Lines beyond this are dropped while the disk does not keep up. */
const mostWaiting = 1_048_576

export function openLogFile(file: string, { maxBytes = 8_388_608 }: LogFileOptions = {}): LogFile {
  let waiting: string[] = []
  let characters = 0
  let lost = 0
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()

  const flush = async (): Promise<void> => {
    const lines = waiting
    const text = `${lines.join('')}${lost === 0 ? '' : lostLine(lost)}`
    waiting = []
    characters = 0
    if (text === '') return
    const before = lost
    lost = 0
    await append(file, text, maxBytes).catch(() => {
      lost += before + lines.length
    })
  }
  const schedule = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined
      writing = writing.then(flush)
    }, flushMs).unref()
  }
  return {
    write(line) {
      if (characters + line.length > mostWaiting) lost += 1
      else {
        waiting.push(line)
        characters += line.length
      }
      schedule()
    },
    async close() {
      clearTimeout(timer)
      await writing
      await flush()
    },
  }
}

/** Writes each line to both. */
export function bothLogs(one: Pick<LogFile, 'write'>, other: Pick<LogFile, 'write'>): Pick<LogFile, 'write'> {
  return {
    write(line) {
      one.write(line)
      other.write(line)
    },
  }
}

async function append(file: string, text: string, maxBytes: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW = 0 } = constants
  const handle = await open(file, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600)
  try {
    await handle.writeFile(text)
    const { size } = await handle.stat()
    if (size >= maxBytes) await rename(file, previousLogFile(file))
  } finally {
    await handle.close()
  }
}

function lostLine(lines: number): string {
  const fields = { level: 'warn', time: new Date().toISOString(), pid: process.pid, lines }
  return `${JSON.stringify({ ...fields, msg: 'log lines lost: the log file could not be written' })}\n`
}
