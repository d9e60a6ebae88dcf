import { mkdir, readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { ToolError } from '@gantry/contract'
import { pause } from '../resilience/backoff.ts'
import { codeOf, createPrivate } from './private-file.ts'

const longestWaitMs = 10_000
const lookEveryMs = 25

/**
 * Does work while nobody else, in this process or another, does any for the same file.
 * A lock that was left behind is never broken: two who did that at once would both go on. The message says what to remove.
 */
export async function whileLocked<T>(file: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw unwritable(lock, error)
  })
  await take(lock, signal)
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

async function take(lock: string, signal: AbortSignal): Promise<void> {
  const holder = `${process.pid} on ${hostname()}`
  for (let waitedMs = 0; ; waitedMs += lookEveryMs) {
    try {
      return await createPrivate(lock, holder)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw unwritable(lock, error)
    }
    if (waitedMs >= longestWaitMs) throw await busy(lock)
    await pause(lookEveryMs, signal)
  }
}

async function busy(lock: string): Promise<ToolError> {
  const holder = (await readFile(lock, 'utf8').catch(() => 'somebody')).slice(0, 100)
  const text = `The store is being written by process ${holder}; if that has ended, remove ${lock}.`
  return new ToolError('SECRET_UNAVAILABLE', text)
}

function unwritable(lock: string, cause: unknown): ToolError {
  return new ToolError('SECRET_UNAVAILABLE', `${lock} cannot be written.`, { cause })
}
