import type { Buffer } from 'node:buffer'
import { execFile, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { createFrameReader, encodeFrame, pieceBytes } from './frames.ts'

/** A process that was started with a way to talk to it as its descriptor 3. */
export interface HostProcess {
  /** Absent when it is not a process of this machine's own, or not the host itself; then nothing is read of it. */
  readonly pid?: number | undefined
  /** Both ways, blocking at the other end. */
  readonly channel: Duplex
  /** What it says when it falls. */
  readonly diagnostics: Readable
  /** Resolves when it is gone. */
  readonly exited: Promise<void>
  /** Ends it at once, and everything that it may have started. */
  kill(): void
}

/**
 * Starts a host: `argv` with only this environment, descriptors 0 and 1 closed, 2 for diagnostics, 3 for the channel. A
 * start that fails shows as a channel that closes.
 */
export type SpawnHost = (argv: readonly [string, ...string[]], env: { readonly [name: string]: string }) => HostProcess

/** A plain child process. Called on the main thread only: a host may be set to die with the thread that started it. */
export const spawnPlainly: SpawnHost = ([program, ...words], env) => {
  const child = spawn(program, words, { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe', 'pipe'] })
  const exited = Promise.withResolvers<void>()
  const channel = child.stdio[3] as unknown as Duplex
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
  /** Resolves when the host is gone; no frame comes after that. */
  readonly gone: Promise<void>
  /** The end of what it said on its diagnostics. */
  readonly lastWords: string
  send(kind: number, ...parts: readonly Uint8Array[]): void
  /** Sets who hears what it says, in pieces of 64 KiB at most; throwing there ends the host, as a longer piece does. */
  listen(take: (kind: number, payload: Buffer) => void): void
  /** Ends it at once; resolves when it is gone. */
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

/** Programs and words to put before a command, so that it has less than its starter. */
export type Confinement = readonly string[]

const nobody = '65534'
/** Dies with its starter, also when that is killed, and gets no rights that it does not have. */
const frail = ['setpriv', '--no-new-privs', '--pdeathsig', 'KILL']
const asNobody = [
  '--reuid',
  nobody,
  '--regid',
  nobody,
  '--clear-groups',
  '--inh-caps',
  '-all',
  '--bounding-set',
  '-all',
]

/**
 * The strongest confinement that works here: as root, the uid `nobody`; for every user, death with the starter. It is tried out on the
 * files that a host must be able to read, because who may read them is another's decision.
 */
export async function findConfinement(files: readonly string[], signal: AbortSignal): Promise<Confinement> {
  const candidates = process.getuid?.() === 0 ? [[...frail, ...asNobody], frail] : [frail]
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
