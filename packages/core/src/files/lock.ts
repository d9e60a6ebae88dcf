import { mkdir, readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { type ErrorCode, ToolError } from '@gantry/contract'
import { pause } from '../resilience/retry.ts'
import { codeOf, createPrivate } from './private-file.ts'

const lookEveryMs = 25

export interface LockOptions {
  readonly signal: AbortSignal
  /** What it is when the lock cannot be had. */
  readonly code: ErrorCode
  /** How long to wait for whoever has it; ten seconds when absent. */
  readonly waitMs?: number
}

/**
 * Does work while nobody else, in this process or another, does any for the same file.
 * A lock that was left behind is never broken: two who did that at once would both go on. The message says what to remove.
 */
export async function whileLocked<T>(file: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw unwritable(lock, options.code, error)
  })
  await take(lock, options)
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

async function take(lock: string, { signal, code, waitMs = 10_000 }: LockOptions): Promise<void> {
  const holder = `${process.pid} on ${hostname()}`
  for (let waitedMs = 0; ; waitedMs += lookEveryMs) {
    try {
      return await createPrivate(lock, holder)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw unwritable(lock, code, error)
    }
    if (waitedMs >= waitMs) throw await busy(lock, code)
    await pause(lookEveryMs, signal)
  }
}

async function busy(lock: string, code: ErrorCode): Promise<ToolError> {
  const holder = (await readFile(lock, 'utf8').catch(() => 'somebody')).slice(0, 100)
  const file = lock.slice(0, -'.lock'.length)
  return new ToolError(code, `${file} is being written by process ${holder}; if that has ended, remove ${lock}.`)
}

function unwritable(lock: string, code: ErrorCode, cause: unknown): ToolError {
  return new ToolError(code, `${lock} cannot be written.`, { cause })
}
