import { writeSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import type { Io } from './cli/io.ts'
import { tooLarge } from './cli/json-operand.ts'
import { safeLine } from './cli/terminal.ts'
import { reserveStdout } from './reserved-stdout.ts'

export interface ProcessIo extends Io {
  /** Whether the answer could not be written although its reader may still wait for it. */
  readonly failed: boolean
}

/**
 * The command's view of this process. A reader that left is no fault: the call is cancelled and nothing more is said.
 * Any other failure to write the answer is told, and cancels too, because nobody would see the rest.
 */
export function processIo(stop: AbortController, endOnStray: Io['endOnStray']): ProcessIo {
  const openStdout = reserveStdout()
  const state = { left: false, failed: false }
  const leave = (): void => {
    state.left = true
    stop.abort(new ToolError('CANCELLED', 'The reader of the output went away.'))
  }
  // What fails on stderr for another reason can be told nowhere, and is not worth the call.
  const writeErr = writer(
    2,
    () => process.stderr,
    (error) => isGone(error) && leave(),
  )
  const err = (text: string): void => {
    if (!state.left) void writeErr(text)
  }
  const out = writer(1, openStdout, (error) => {
    if (isGone(error)) return leave()
    state.failed = true
    err(`The output could not be written.\n  because of ${safeLine(error.message)}\n`)
    stop.abort(new ToolError('CANCELLED', 'The output could not be written.'))
  })
  return {
    out,
    err,
    get failed() {
      return state.failed
    },
    get watched() {
      return process.stderr.isTTY === true
    },
    get columns() {
      return process.stderr.columns || 80
    },
    environment: process.env,
    folder: process.cwd(),
    readInput: (limit) => readInput(limit, stop.signal),
    async askSecret(prompt, limit) {
      if (!process.stdin.isTTY) return readInput(limit, stop.signal)
      err(prompt)
      const { readHidden } = await import('./hidden-input.ts')
      return readHidden(process.stdin, limit, stop.signal).finally(() => err('\n'))
    },
    signal: stop.signal,
    endOnStray,
  }
}

function isGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE' || code === 'ECONNRESET'
}

/**
 * Writes straight to the descriptor, because opening `process.stdout` costs a short command some milliseconds.
 * A pipe that another process made non-blocking may be full: then the stream takes over, for good, to keep the order.
 * The first failure is told to `lost` and is the last: half an answer must not be followed by more.
 */
function writer(
  descriptor: number,
  open: () => NodeJS.WriteStream,
  lost: (error: NodeJS.ErrnoException) => void,
): (text: string) => Promise<void> {
  let stream: NodeJS.WriteStream | undefined
  let ended = false
  const end = (error: Error): void => {
    if (!ended) {
      ended = true
      lost(error)
    }
  }
  return async (text) => {
    let rest = Buffer.from(text)
    try {
      while (!ended && stream === undefined && rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return end(error as Error)
      stream = open().on('error', end)
    }
    if (ended || rest.length === 0) return
    await new Promise<void>((resolve) => {
      stream?.write(rest, (error) => {
        if (error) end(error)
        resolve()
      })
    })
  }
}

async function readInput(limit: number, signal: AbortSignal): Promise<string> {
  const cancel = (): void => void process.stdin.destroy()
  signal.addEventListener('abort', cancel, { once: true })
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of process.stdin) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > limit) throw tooLarge('stdin')
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', cancel)
  }
  if (signal.aborted) throw new ToolError('CANCELLED', 'Cancelled while reading stdin.', { effect: 'none' })
  return Buffer.concat(chunks).toString('utf8')
}
