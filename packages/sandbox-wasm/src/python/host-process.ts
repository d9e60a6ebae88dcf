import type { Buffer } from 'node:buffer'
import { execFile, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { Duplex, type Readable } from 'node:stream'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import { createFrameReader, encodeFrame, pieceBytes } from './frames.ts'

/** A child process with a channel on its descriptor 3. */
export interface HostProcess {
  /** Absent when it is not a local process or not the host itself; then its usage is not read. */
  readonly pid?: number | undefined
  /** Bidirectional; blocking at the other end. */
  readonly channel: Duplex
  /** Its stderr. */
  readonly diagnostics: Readable
  /** Resolves when it has exited. */
  readonly exited: Promise<void>
  /** Kills it and everything that it may have started. */
  kill(): void
}

/**
 * Starts a host: `argv` with only this environment, descriptors 0 and 1 closed, 2 for diagnostics, 3 for the channel. A
 * failed start shows as a channel that closes.
 */
export type SpawnHost = (argv: readonly [string, ...string[]], env: { readonly [name: string]: string }) => HostProcess

/** A plain child process. Called only on the main thread: a host may be set to die with the thread that started it. */
export const spawnPlainly: SpawnHost = ([program, ...words], env) => {
  const child = spawn(program, words, { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe', 'pipe'] })
  const exited = Promise.withResolvers<void>()
  const channel = child.stdio[3]
  // Without free descriptors the child has no channel.
  if (!(channel instanceof Duplex)) throw new Error('The process of a Python host has no channel.')
  child.on('error', () => {
    channel.destroy()
    exited.resolve()
  })
  child.on('exit', () => exited.resolve())
  return {
    pid: child.pid,
    channel,
    diagnostics: child.stdio[2] as Readable,
    exited: exited.promise,
    kill: () => void child.kill('SIGKILL'),
  }
}

/** One host as its starter sees it. */
export interface HostClient {
  readonly pid: number | undefined
  /** Resolves when the host has exited; no frame arrives after that. */
  readonly gone: Promise<void>
  /** The end of its diagnostics. */
  readonly lastWords: string
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /**
   * Sets the receiver of its frames, of at most 64 KiB; an error thrown there kills the host, and so does a longer
   * frame.
   */
  listen(take: (kind: number, payload: Buffer) => void): void
  /** Kills it; resolves when it has exited. */
  kill(): Promise<void>
}

const keptWords = 8_192

export function connectHost(host: HostProcess): HostClient {
  const gone = Promise.withResolvers<void>()
  let words = ''
  let listener: (kind: number, payload: Buffer) => void = () => undefined
  const read = createFrameReader(pieceBytes, (kind, payload) => listener(kind, payload))
  const { channel, diagnostics } = host
  let broken = false
  channel.on('data', (piece: Buffer) => {
    try {
      if (!broken) read(piece)
    } catch {
      // A host that breaks the protocol is compromised; nothing more is read from it.
      broken = true
      host.kill()
      channel.destroy()
    }
  })
  const closed = new Promise<void>((resolve) => channel.once('close', resolve))
  channel.on('error', () => undefined)
  diagnostics.on('error', () => undefined)
  diagnostics.on('data', (piece: Buffer) => {
    words = (words + piece.toString()).slice(-keptWords)
  })
  void Promise.all([host.exited, closed]).then(() => gone.resolve())
  return {
    pid: host.pid,
    gone: gone.promise,
    get lastWords() {
      return words
    },
    send(kind, ...parts) {
      if (channel.writable) channel.write(encodeFrame(kind, ...parts))
    },
    listen(take) {
      listener = take
    },
    async kill() {
      host.kill()
      await gone.promise
    },
  }
}

/** Command prefix that runs a command with fewer rights than its starter. */
export type Confinement = readonly string[]

const unprivilegedId = '65534'
/** Dies with its starter, also when that is killed, and gains no privileges. */
const frail = ['setpriv', '--no-new-privs', '--pdeathsig', 'KILL']
const unprivileged = [
  '--reuid',
  unprivilegedId,
  '--regid',
  unprivilegedId,
  '--clear-groups',
  '--inh-caps',
  '-all',
  '--bounding-set',
  '-all',
]

/**
 * The strongest confinement that works here: as root, an unprivileged uid; for every user, death with the starter. Tested
 * on the files that a host must be able to read, because their permissions are not ours to set.
 */
export async function findConfinement(files: readonly string[], signal: AbortSignal): Promise<Confinement> {
  const candidates = process.getuid?.() === 0 ? [[...frail, ...unprivileged], frail] : [frail]
  for (const candidate of candidates) if (await works(candidate, files, signal)) return candidate
  return []
}

async function works([program = '', ...words]: Confinement, files: readonly string[], signal: AbortSignal) {
  const test = ['/bin/sh', '-c', 'for file; do test -r "$file" || exit 1; done', 'sh', ...files]
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const env = { PATH: '/usr/bin:/bin' }
  execFile(program, [...words, ...test], { env, cwd: '/', signal, timeout: 10_000 }, (error) => resolve(error === null))
  return await promise
}

/** Watches a host from outside, where its program cannot delay it. */
interface HostWatch {
  /** Resolves with the limit that was reached; pending otherwise. */
  readonly hit: Promise<SandboxLimit>
  /** CPU time of the run, as last read. */
  cpuMs(): number | undefined
  stop(): void
}

const pollMs = 50
/** Memory of an interpreter in addition to its linear memory, with a margin. */
const besideBytes = 320 * 1_048_576

export function watchHost(pid: number | undefined, limits: SandboxLimits): HostWatch {
  const { promise: hit, resolve } = Promise.withResolvers<SandboxLimit>()
  const wall = setTimeout(() => resolve('wallMs'), limits.wallMs)
  let timer: NodeJS.Timeout | undefined
  let [first, last]: (number | undefined)[] = []
  let stopped = false
  const poll = async (): Promise<void> => {
    // One failed read does not end the watch: the next may succeed.
    const usage = pid === undefined ? undefined : await usageOf(pid)
    if (stopped) return
    if (usage !== undefined) weigh(usage)
    timer = setTimeout(() => void poll(), pollMs)
  }
  const weigh = ({ cpuMs, residentBytes }: ProcessUsage): void => {
    first ??= cpuMs
    last = cpuMs - first
    if (last >= limits.cpuMs) resolve('cpuMs')
    if (residentBytes >= limits.memoryBytes + besideBytes) resolve('memoryBytes')
  }
  if (pid !== undefined) void poll()
  return {
    hit,
    cpuMs: () => last,
    stop() {
      stopped = true
      clearTimeout(wall)
      clearTimeout(timer)
    },
  }
}

/** Usage of a process, by the kernel's accounting. */
interface ProcessUsage {
  readonly cpuMs: number
  readonly residentBytes: number
}

/** A kernel clock tick, the same on every Linux. */
const tickMs = 10

/** Undefined when the process or /proc does not exist. */
export async function usageOf(pid: number): Promise<ProcessUsage | undefined> {
  try {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'latin1'),
      readFile(`/proc/${pid}/status`, 'latin1'),
    ])
    // The program name, in parentheses, may contain anything; the fields are counted after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = Number(fields[11]) + Number(fields[12])
    const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0)
    return { cpuMs: ticks * tickMs, residentBytes: resident * 1_024 }
  } catch {
    return undefined
  }
}
