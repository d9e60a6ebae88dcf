import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { searchPath } from './packages.ts'

/**
 * A test server in a private folder, started by a keeper process that reads a pipe from this process. When this process
 * ends, for any reason, the pipe closes, and the keeper stops the server and removes the folder. So no cleanup by hand
 * is needed, and a server that is never stopped neither keeps this process alive nor outlives it.
 */
export interface KeptServer {
  /** Process id of the server's main process; it changes after `restart`. */
  readonly pid: number
  readonly folder: string
  /** Kills the whole server at once (SIGKILL), as in a power cut; `restart` starts it again. */
  kill(): void
  /** Freezes it until `resume` (SIGSTOP); connections stay open without an answer. */
  pause(): void
  resume(): void
  /** Restarts it on the same folder and port, after a `kill` or while it runs. */
  restart(): Promise<void>
  /** Stops it and removes the folder; idempotent. */
  stop(): Promise<void>
}

export interface KeepOptions {
  readonly name: string
  /** Removed at the end; the server's output is in its file `log`. */
  readonly folder: string
  readonly command: readonly string[]
  readonly owner?: { readonly uid?: number; readonly gid?: number }
  /** The signal that ends the server at once; TERM for one that leaves mounts or processes behind when it is killed. */
  readonly lastSignal: 'QUIT' | 'KILL' | 'TERM'
  /** A shell script that runs after the server's end, before the folder, `$folder`, is removed. */
  readonly cleanUp?: string
  /** Whether the server with this process id accepts connections. */
  readonly isReady: (pid: number) => boolean | Promise<boolean>
}

/** Long enough to recover after a crash on a busy machine. */
const startMs = 60_000
const lookEveryMs = 10
const mostRestarts = 20
const restartEveryMs = 250

/**
 * The keeper's shell script. Arguments: the folder, the final signal, the clean-up script, then the command. It runs the command and prints
 * its process id; each further line on stdin runs it again after it has ended. At the end of stdin it stops the command
 * and removes the folder.
 */
const keeper = `
folder=$1; last=$2; clean=$3; shift 3
run() { "$@" </dev/null >>"$folder/log" 2>&1 & pid=$!; echo $pid; }
run "$@"
while read -r line; do wait $pid; run "$@"; done
kill -CONT $pid; kill -$last $pid
wait $pid; eval "$clean"; rm -rf "$folder"
`

/** Starts a server; resolves when it is ready, and rejects with its output when it fails. */
export async function keepServer(options: KeepOptions): Promise<KeptServer> {
  const { folder, command, owner = {}, lastSignal, cleanUp = '' } = options
  const child = spawn('sh', ['-c', keeper, 'keeper', folder, lastSignal, cleanUp, ...command], {
    ...owner,
    cwd: folder,
    env: { PATH: searchPath() },
    // Ctrl-C in a terminal must reach only this process; the server stops after it.
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const server = serverOf(child, options)
  await server.begin().catch(async (error: unknown) => {
    await server.stop()
    throw error
  })
  return server
}

type Keeper = ChildProcessByStdio<Writable, Readable, null>

function serverOf(child: Keeper, { name, folder, isReady }: KeepOptions): KeptServer & { begin(): Promise<void> } {
  const pids = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  child.stdin.on('error', () => {})
  for (const handle of [child, child.stdin, child.stdout] as unknown as { unref(): void }[]) handle.unref()
  let pid = 0
  const signal = (name: NodeJS.Signals): void => {
    for (const one of [pid, ...childrenOf(pid)]) sendSignal(one, name)
  }
  const begin = async (): Promise<void> => {
    child.ref()
    pid = Number((await pids.next()).value)
    for (let waited = 0; !(await isReady(pid)); waited += lookEveryMs) {
      if (!isAlive(pid) || waited > startMs) throw new Error(`${name} did not start:\n${logOf(folder)}`)
      await pause(lookEveryMs)
    }
    child.unref()
  }
  return {
    folder,
    get pid() {
      return pid
    },
    begin,
    kill: () => signal('SIGKILL'),
    pause: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
    async restart() {
      signal('SIGKILL')
      for (let left = mostRestarts; ; left -= 1) {
        child.stdin.write('again\n')
        try {
          return await begin()
        } catch (error) {
          // A child forked just before the kill lives a little longer, and a new server refuses to start meanwhile.
          if (left === 0 || isAlive(pid)) throw error
          await pause(restartEveryMs)
        }
      }
    },
    async stop() {
      signal('SIGCONT')
      child.ref()
      child.stdin.end()
      await gone
    },
  }
}

/** Outside the ephemeral range, where a client could connect to itself while the server is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000)
    const probe = createServer()
    const free = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false))
      probe.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!free) continue
    await new Promise((resolve) => probe.close(resolve))
    return port
  }
}

/** The server's processes; each may have its own session, so a process group does not cover them. */
function childrenOf(pid: number): number[] {
  const listed = attempt(() => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'))
  return (listed ?? '').split(' ').filter(Boolean).map(Number)
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  attempt(() => process.kill(pid, signal))
}

/** A zombie that its keeper has not waited for yet counts as dead. */
function isAlive(pid: number): boolean {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  return stat !== undefined && !/\) [ZX] /.test(stat)
}

function logOf(folder: string): string {
  return (attempt(() => readFileSync(join(folder, 'log'), 'utf8')) ?? '').slice(-2_000)
}

/** The result of the work, or undefined when it fails. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
