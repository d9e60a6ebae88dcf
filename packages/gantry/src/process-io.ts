import { writeSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Io } from './cli/io.ts'
import { tooLarge } from './cli/json-operand.ts'
import { safeLine } from './cli/terminal.ts'

interface ProcessIo extends Io {
  /** Whether the output could not be written for a reason other than a closed pipe. */
  readonly failed: boolean
}

/**
 * The Io of this process. A closed pipe is not an error: the call is cancelled and nothing more is printed.
 * Any other write failure is reported and also cancels the call, because the rest cannot be read.
 */
export function processIo(stop: AbortController, endOnUncaught: Io['endOnUncaught']): ProcessIo {
  const openStdout = reserveStdout()
  const state = { left: false, failed: false }
  const leave = (): void => {
    state.left = true
    stop.abort(new ToolError('CANCELLED', 'The reader of the output closed it.'))
  }
  // Another failure on stderr cannot be reported anywhere, and does not cancel the call.
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
      return readHidden(process.stdin, limit, stop.signal).finally(() => err('\n'))
    },
    signal: stop.signal,
    endOnUncaught,
  }
}

function isGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE' || code === 'ECONNRESET'
}

/**
 * Writes directly to the descriptor, because opening `process.stdout` costs a short command some milliseconds.
 * A pipe that another process made non-blocking may be full: all further writes then use the stream, to keep the order.
 * The first failure is passed to `lost` and ends the writing: partial output must not be followed by more.
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
  const leave = onAbort(signal, () => void process.stdin.destroy())
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
    leave()
  }
  if (signal.aborted) throw new ToolError('CANCELLED', 'Cancelled while reading stdin.', { effect: 'none' })
  return Buffer.concat(chunks).toString('utf8')
}

/** The part of a terminal that is needed to read without echo. */
interface HiddenInput extends NodeJS.EventEmitter {
  setRawMode(on: boolean): unknown
  resume(): unknown
  pause(): unknown
}

/** Enter, and ctrl-d. */
const ends = '\r\n\u0004'
const backspaces = '\u0008\u007f'
const [ctrlC, ctrlU] = ['\u0003', '\u0015']

/**
 * Reads one line without echo. Enter or Ctrl-D ends it, Backspace and Ctrl-U delete, Ctrl-C cancels, and other control
 * characters are ignored. The mode of the terminal is always restored.
 */
export async function readHidden(input: HiddenInput, limit: number, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const decoder = new StringDecoder('utf8')
  let typed: string[] = []
  const type = (chunk: Buffer): void => {
    for (const character of decoder.write(chunk)) {
      if (ends.includes(character)) resolve(typed.join(''))
      else if (character === ctrlC) reject(new ToolError('CANCELLED', 'Cancelled.', { effect: 'none' }))
      else if (backspaces.includes(character)) typed.pop()
      else if (character === ctrlU) typed = []
      else if (character >= ' ' && typed.length <= limit) typed.push(character)
    }
  }
  const close = (): void => resolve(typed.join(''))
  input.setRawMode(true)
  input.on('data', type)
  input.on('end', close)
  const leave = onAbort(signal, () => reject(signal.reason))
  input.resume()
  try {
    return await promise
  } finally {
    leave()
    input.off('data', type)
    input.off('end', close)
    input.pause()
    input.setRawMode(false)
  }
}

/**
 * Reserves stdout for the output of the command: afterwards `process.stdout`, and so `console.log`, is stderr.
 * Returns a function that opens the real one. Neither is opened here, because that costs a short command some milliseconds.
 */
function reserveStdout(): () => NodeJS.WriteStream {
  const real = Object.getOwnPropertyDescriptor(process, 'stdout')
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr })
  return () => real?.get?.call(process) ?? real?.value
}
