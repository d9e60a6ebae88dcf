import { writeSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import type { Io } from './cli/io.ts'
import { tooLarge } from './cli/json-operand.ts'

/** The command's view of this process. */
export function processIo(stop: AbortController): Io {
  const gone = (): void => stop.abort(new ToolError('CANCELLED', 'The reader of the output went away.'))
  const out = writer(1, () => process.stdout, gone)
  const err = writer(2, () => process.stderr, gone)
  return {
    out,
    err: (text) => void err(text),
    get watched() {
      return process.stderr.isTTY === true
    },
    get columns() {
      return process.stderr.columns || 80
    },
    environment: process.env,
    folder: process.cwd(),
    readInput: (limit) => readInput(limit, stop.signal),
    signal: stop.signal,
  }
}

/**
 * Writes straight to the descriptor, because opening `process.stdout` costs a short command some milliseconds.
 * A pipe that another process made non-blocking may be full: then the stream takes over, for good, to keep the order.
 */
function writer(descriptor: number, open: () => NodeJS.WriteStream, gone: () => void): (text: string) => Promise<void> {
  let stream: NodeJS.WriteStream | undefined
  return async (text) => {
    let rest = Buffer.from(text)
    try {
      while (stream === undefined && rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return gone()
      stream = open().on('error', gone)
    }
    if (rest.length > 0) await new Promise<void>((resolve) => stream?.write(rest, () => resolve()))
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
