import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { onAbort, within } from '@gantry/core/internal/resilience/abort'
import { limitedLines, plainText } from './logs.ts'

/** How to start a program, and the handlers of its output. */
interface ChildPlan {
  /** Named in messages. */
  readonly server: string
  readonly command: readonly [string, ...string[]]
  readonly cwd?: string
  /** Environment of the program in addition to the few variables that every program needs. */
  readonly env: { readonly [name: string]: string }
  /** Redacted from everything that the program prints. */
  readonly hidden: readonly string[]
  readonly maxLineBytes: number
  /** When it aborts, the program and its process group are killed synchronously. */
  readonly kill: AbortSignal
  onLine(line: string): void
  /** A line of its stderr, escaped for display. */
  onLog(line: string): void
  /** Called once when the program has ended, with the reason as a sentence. */
  onEnd(reason: string): void
}

/** A program that runs in a process group of its own. */
export interface Child {
  readonly pid: number | undefined
  /** Resolves when the line is written to the program's stdin; rejects when the write fails. */
  write(line: string): Promise<void>
  /** Kills the program at once, for this reason. */
  fail(reason: string): void
  /** Closes stdin, then sends SIGTERM, then kills the process group; resolves when the program has ended. */
  stop(): Promise<void>
}

type Program = ChildProcessByStdio<Writable, Readable, Readable>

const inherited = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TEMP']
/** The limit of buffered input for a program that does not read its stdin. */
const mostWaitingBytes = 64 * 1_048_576
const inputGraceMs = 500
const termGraceMs = 2_000
const drainMs = 250

/**
 * ## Child process
 *
 * Starts a program without a shell.
 *
 * - `running` → `ending`: it exits, closes its output, breaks a limit or is stopped.
 * - `ending` → `ended`: the rest of its output was read for a moment, its whole process group was killed, and `onEnd`
 * was called with the reason.
 */
export async function startChild(plan: ChildPlan): Promise<Child> {
  plan.kill.throwIfAborted()
  const program = launch(plan)
  const errors = errorOutput(plan.hidden, plan.onLog)
  const gone = Promise.withResolvers<void>()
  let reason: string | undefined
  let ended = false
  let stopping = false

  const end = (why: string): void => {
    reason ??= why
    if (ended) return
    ended = true
    release()
    signalGroup(program, 'SIGKILL')
    const tail = errors.tail()
    plan.onEnd(tail === '' ? reason : `${reason} The last it said: ${quote(tail, 1_000)}`)
    for (const stream of [program.stdin, program.stdout, program.stderr]) stream.destroy()
    gone.resolve()
  }
  const fail = (why: string): void => {
    reason ??= why
    signalGroup(program, 'SIGKILL')
  }
  const release = whenNoMoreTime(plan.kill, () => fail(`The MCP server ${plan.server} was stopped.`))

  const reader = lineReader(plan.maxLineBytes, (line) => {
    if (!ended && !stopping && reason === undefined) plan.onLine(line)
  })
  program.stdout.on('data', (chunk: Buffer) => {
    if (reason !== undefined || reader.push(chunk)) return
    fail(`The MCP server ${plan.server} sent a message larger than ${plan.maxLineBytes} bytes and was stopped.`)
  })
  program.stderr.on('data', (chunk: Buffer) => errors.push(chunk))
  for (const stream of [program.stdin, program.stdout, program.stderr]) stream.on('error', () => undefined)
  program.stdout.on('end', () => {
    // A program that closed its stdout cannot respond; that may also be the first sign of its exit.
    setTimeout(() => fail(`The MCP server ${plan.server} closed its output and was stopped.`), drainMs).unref()
  })
  program.on('exit', (code, signal) => {
    // The program may have exited before; its exit code is then the only information.
    const how = signal === null ? `ended with exit code ${code}` : stopping ? 'was stopped' : `was ended by ${signal}`
    reason ??= `The MCP server ${plan.server} ${how}.`
    const why = reason
    // A child process of the program may keep its stdout open forever.
    const timer = setTimeout(() => end(why), drainMs)
    program.on('close', () => {
      clearTimeout(timer)
      end(why)
    })
  })

  try {
    await started(program, plan)
  } catch (error) {
    release()
    throw error
  }
  return {
    pid: program.pid,
    write(line) {
      return write(program, plan, line, ended || stopping || reason !== undefined, fail).catch(async (error) => {
        // A broken pipe is usually the first sign of an exit, whose code is more informative.
        await endsWithin(2 * drainMs, gone.promise)
        throw error
      })
    },
    fail,
    async stop() {
      stopping = true
      program.stdin.end()
      if (await endsWithin(inputGraceMs, gone.promise)) return
      signalGroup(program, 'SIGTERM')
      if (await endsWithin(termGraceMs, gone.promise)) return
      signalGroup(program, 'SIGKILL')
      await endsWithin(termGraceMs, gone.promise)
    },
  }
}

function launch(plan: ChildPlan): Program {
  const [file, ...args] = plan.command
  const env = Object.fromEntries(inherited.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])))
  try {
    return spawn(file, args, {
      env: { ...env, ...plan.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      shell: false,
      windowsHide: true,
      // Its own process group, so that its child processes can be killed with it.
      detached: process.platform !== 'win32',
      ...(plan.cwd === undefined ? {} : { cwd: plan.cwd }),
    })
  } catch {
    // Node's message would contain the value of an invalid variable.
    const message = `The MCP server ${plan.server} could not be started: its command or environment holds a NUL character.`
    throw new ToolError('BACKEND_UNAVAILABLE', message, { retryable: false })
  }
}

/**
 * Runs `work` when the signal aborts or this process exits, whichever comes first; the returned function removes both
 * listeners. Each call raises the listener limit by one, because many programs are not a leak.
 */
function whenNoMoreTime(signal: AbortSignal, work: () => void): () => void {
  const raiseListenerLimit = (more: number): void => {
    const most = process.getMaxListeners()
    if (most > 0) process.setMaxListeners(Math.max(1, most + more))
  }
  raiseListenerLimit(1)
  process.once('exit', work)
  const leave = onAbort(signal, work)
  return () => {
    process.off('exit', work)
    leave()
    raiseListenerLimit(-1)
  }
}

function started(program: Program, plan: ChildPlan): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  program.once('spawn', resolve)
  program.on('error', (cause) => {
    const message = `The program ${quote(plan.command[0])} of the MCP server ${plan.server} could not be started.`
    reject(new ToolError('BACKEND_UNAVAILABLE', message, { cause }))
  })
  return promise
}

function write(
  program: Program,
  plan: ChildPlan,
  line: string,
  over: boolean,
  fail: (why: string) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (over) throw new ToolError('BACKEND_UNAVAILABLE', `The MCP server ${plan.server} is not running.`)
    if (program.stdin.writableLength > mostWaitingBytes) {
      fail(`The MCP server ${plan.server} does not read its input and was stopped.`)
    }
    program.stdin.write(line, (error) => (error ? reject(error) : resolve()))
  })
}

function signalGroup(program: Program, signal: NodeJS.Signals): void {
  try {
    if (program.pid === undefined) return
    if (process.platform === 'win32') program.kill(signal)
    else process.kill(-program.pid, signal)
  } catch {
    // The process group is empty.
  }
}

/** Whether the work ends in time. */
function endsWithin(ms: number, work: Promise<void>): Promise<boolean> {
  return within(
    ms,
    work.then(() => true),
    () => false,
  )
}

/** Splits bytes into lines; buffers at most one line of `limit` bytes. */
interface LineReader {
  /** False when a line exceeds the limit; the reader must not be used afterwards. */
  push(chunk: Buffer): boolean
}

export function lineReader(limit: number, onLine: (line: string) => void): LineReader {
  let held: Buffer[] = []
  let size = 0
  const take = (piece: Buffer): boolean => {
    held.push(piece)
    size += piece.length
    return size <= limit
  }
  const rest = (piece: Buffer): string => {
    take(piece)
    const line = Buffer.concat(held, size).toString('utf8')
    held = []
    size = 0
    return line
  }
  return {
    push(chunk) {
      let start = 0
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
        if (size + end - start > limit) return false
        const line = held.length === 0 ? chunk.toString('utf8', start, end) : rest(chunk.subarray(start, end))
        start = end + 1
        onLine(line)
      }
      return start === chunk.length || take(chunk.subarray(start))
    },
  }
}

const longestLine = 1_000
const linesPerSecond = 50
const tailLines = 10

/** Reads the stderr of a program: logged line by line within limits, and its last lines kept. */
interface ErrorOutput {
  push(chunk: Buffer): void
  /** The last lines, for the message about the program's end. */
  tail(): string
}

/** `hidden` are values that are redacted from the output. */
export function errorOutput(hidden: readonly string[], tell: (line: string) => void): ErrorOutput {
  const decoder = new StringDecoder('utf8')
  const pieces = createRedactor({ values: hidden, keys: false }).pieces()
  const limited = limitedLines(tell, linesPerSecond)
  const last: string[] = []
  let open = ''
  const line = (text: string): void => {
    const shown = plainText(text.trimEnd(), longestLine)
    if (shown === '') return
    last.push(shown)
    if (last.length > tailLines) last.shift()
    limited(shown)
  }
  return {
    push(chunk) {
      const parts = `${open}${pieces.push(decoder.write(chunk))}`.split('\n')
      // Only the beginning of an endless line is kept.
      open = (parts.pop() ?? '').slice(0, longestLine + 1)
      for (const part of parts) line(part)
    },
    tail() {
      const rest = `${open}${pieces.end()}`
      open = ''
      line(rest)
      return last.join(' | ')
    },
  }
}
