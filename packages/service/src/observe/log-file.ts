import { constants } from 'node:fs'
import { mkdir, open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { LogBuffer } from './logs.ts'

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

/**
 * Keeps the lines of a buffer in a file, for `gantry logs`. It is written in the background, readable by its owner alone,
 * and bounded: one file and its predecessor. Returns the function that writes what is left and ends it.
 * - Errors: lines that cannot be written are dropped and counted in the next line; the log on stderr has them.
 * - Concurrency: several processes may append to one file.
 */
export function keepLog(file: string, buffer: LogBuffer, { maxBytes = 8_388_608 }: LogFileOptions = {}) {
  let unwritten = 0
  let writing: Promise<void> | undefined
  const flush = async (): Promise<void> => {
    const { lines, lost } = buffer.take()
    const missing = lost + unwritten
    if (lines.length === 0 && lost === 0) return
    unwritten = 0
    await append(file, `${lines.join('')}${missing === 0 ? '' : lostLine(missing)}`, maxBytes).catch(() => {
      unwritten = missing + lines.length
    })
  }
  // An interval, because a timer that a call starts would belong to the call.
  const timer = setInterval(() => {
    writing ??= flush().finally(() => {
      writing = undefined
    })
  }, flushMs).unref()
  return async (): Promise<void> => {
    clearInterval(timer)
    await writing
    await flush()
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
