import { ToolError } from '@gantry/contract'
import { runCommandLine } from './cli/cli.ts'
import type { Io } from './cli/io.ts'
import { tooLarge } from './cli/json-operand.ts'
import { safeLine } from './cli/terminal.ts'

/** The same key press can reach us twice, from the terminal and from a parent; a second one comes later. */
const samePressMs = 100
/** How long handles that a tool forgot may keep the process after the answer. */
const lingerMs = 1_000

/** The command, wired to this process. The exit code is set, not forced, so that everything printed arrives. */
export async function main(argv: readonly string[]): Promise<void> {
  const stop = new AbortController()
  stopOnSignals(stop)
  surviveStrayErrors()
  process.exitCode = await runCommandLine(argv, processIo(stop))
  leaveSoon()
}

function processIo(stop: AbortController): Io {
  const gone = (): void => stop.abort(new ToolError('CANCELLED', 'The reader of the output went away.'))
  process.stdout.on('error', gone)
  process.stderr.on('error', gone)
  return {
    out: (text) => new Promise((resolve) => void process.stdout.write(text, () => resolve())),
    err: (text) => void process.stderr.write(text),
    watched: process.stderr.isTTY === true,
    columns: process.stderr.columns ?? 80,
    environment: process.env,
    folder: process.cwd(),
    readInput: (limit) => readInput(limit, stop.signal),
    signal: stop.signal,
  }
}

/** The first signal cancels the call and lets its Result be printed; the second ends the process at once. */
function stopOnSignals(stop: AbortController): void {
  let first: number | undefined
  const onSignal = (name: string): void => {
    const now = Date.now()
    if (first === undefined) {
      first = now
      stop.abort(new ToolError('CANCELLED', `The process received ${name}.`))
    } else if (now - first > samePressMs) process.exit(130)
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
}

/** What a tool throws outside its call is told, but does not take the Result away. */
function surviveStrayErrors(): void {
  const tell = (thrown: unknown): void => {
    const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : typeof thrown
    process.stderr.write(`warning: something failed outside of its call: ${safeLine(text)}\n`)
  }
  process.on('uncaughtException', tell)
  process.on('unhandledRejection', tell)
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

/** Ends a process that only forgotten handles keep alive; one that is done ends by itself, before the timer. */
function leaveSoon(): void {
  const leave = (): void => {
    const pending = process.stdout.writableLength + process.stderr.writableLength > 0
    if (pending && !process.stdout.destroyed) leaveSoon()
    else process.exit()
  }
  setTimeout(leave, lingerMs).unref()
}
