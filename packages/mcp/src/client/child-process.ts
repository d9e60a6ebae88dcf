import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { limitedLines, plainText } from './logs.ts'

/** How to start a program and what to do with what it says. */
interface ChildPlan {
  /** Named in messages. */
  readonly server: string
  readonly command: readonly [string, ...string[]]
  readonly cwd?: string
  /** Given to the program beside the few variables that every program needs. */
  readonly env: { readonly [name: string]: string }
  /** Redacted from everything that the program prints. */
  readonly hidden: readonly string[]
  readonly maxLineBytes: number
  /** When it aborts, the program is killed within that very turn, with all that it started. */
  readonly kill: AbortSignal
  onLine(line: string): void
  /** A line of its error output, made safe to show. */
  onLog(line: string): void
  /** Called once, with a sentence that says why the program is no longer there. */
  onEnd(reason: string): void
}

/** A program that runs in a process group of its own. */
export interface Child {
  readonly pid: number | undefined
  /** Resolves when the program's input took the line; rejects when it did not. */
  write(line: string): Promise<void>
  /** Ends it at once, for this reason. */
  fail(reason: string): void
  /** Closes its input, then asks, then kills it with all that it started; resolves when it is gone. */
  stop(): Promise<void>
}

type Program = ChildProcessByStdio<Writable, Readable, Readable>

const inherited = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TEMP']
/** What may wait for a program that does not read its input. */
const mostWaitingBytes = 64 * 1_048_576
const inputGraceMs = 500
const termGraceMs = 2_000
const drainMs = 250

/**
 * Starts a program without a shell. Its life: *running* until it exits, closes its output, breaks a limit or is
 * stopped; then *ending*, in which the rest of its output is read for a moment and its whole process group is killed;
 * then *ended*, when `onEnd` has been told why. Nothing leads back.
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
    // A program that can no longer answer is of no use, but it may only be the first sign of its exit.
    setTimeout(() => fail(`The MCP server ${plan.server} closed its output and was stopped.`), drainMs).unref()
  })
  program.on('exit', (code, signal) => {
    // Who is asked to stop may have ended by itself before, and its exit code is then all there is to go by.
    const how = signal === null ? `ended with exit code ${code}` : stopping ? 'was stopped' : `was ended by ${signal}`
    reason ??= `The MCP server ${plan.server} ${how}.`
    const why = reason
    // Something it started may hold its output open for ever.
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
        // A broken pipe is mostly the first sign of an exit, and the exit says more.
        await within(gone.promise, 2 * drainMs)
        throw error
      })
    },
    fail,
    async stop() {
      stopping = true
      program.stdin.end()
      if (await within(gone.promise, inputGraceMs)) return
      signalGroup(program, 'SIGTERM')
      if (await within(gone.promise, termGraceMs)) return
      signalGroup(program, 'SIGKILL')
      await within(gone.promise, termGraceMs)
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
      // A group of its own, so that all it starts can be ended with it.
      detached: process.platform !== 'win32',
      ...(plan.cwd === undefined ? {} : { cwd: plan.cwd }),
    })
  } catch {
    // Node's words would show the value of a variable that it refuses.
    const message = `The MCP server ${plan.server} could not be started: its command or environment holds a NUL character.`
    throw new ToolError('BACKEND_UNAVAILABLE', message, { retryable: false })
  }
}

/**
 * Does the work when the signal aborts or this process exits, whichever comes first; the result lets go of both. Each
 * makes room for its own listener, because many programs are no leak.
 */
function whenNoMoreTime(signal: AbortSignal, work: () => void): () => void {
  const room = (more: number): void => {
    const most = process.getMaxListeners()
    if (most > 0) process.setMaxListeners(Math.max(1, most + more))
  }
  room(1)
  process.once('exit', work)
  signal.addEventListener('abort', work, { once: true })
  return () => {
    process.off('exit', work)
    signal.removeEventListener('abort', work)
    room(-1)
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

async function within(work: Promise<void>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), ms)
  try {
    return await Promise.race([work.then(() => true), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Cuts bytes into lines; holds no more than one line of at most `limit` bytes. */
interface LineReader {
  /** False when a line became longer than the limit; the reader is then of no more use. */
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
      // Of a line without end only the beginning is of interest.
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
