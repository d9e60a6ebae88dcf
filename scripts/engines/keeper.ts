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
 * A server of our own in a private folder, started by a keeper that holds its lifeline, a pipe from us. When we end,
 * however we end, the pipe closes, and the keeper stops the server and removes the folder. So nothing has to be tidied
 * up by hand, and a server that nobody stops keeps neither the process alive nor outlives it.
 */
export interface KeptServer {
  /** Of the server's first process; another one after `restart`. */
  readonly pid: number
  readonly folder: string
  /** The whole server dies at once (SIGKILL), as in a power cut; `restart` brings it back. */
  kill(): void
  /** Nothing of it runs until `resume`; connections stay open and silent (SIGSTOP). */
  pause(): void
  resume(): void
  /** Starts it again, on the same folder and port, after a `kill` or in place of what runs. */
  restart(): Promise<void>
  /** Ends it and removes the folder; harmless when repeated. */
  stop(): Promise<void>
}

export interface KeepOptions {
  readonly name: string
  /** Removed at the end; what the server prints is in `log` within. */
  readonly folder: string
  readonly command: readonly string[]
  readonly owner?: { readonly uid?: number; readonly gid?: number }
  /** What ends the server at once. */
  readonly lastSignal: 'QUIT' | 'KILL'
  /** Whether the server, which has this process id, takes connections. */
  readonly isReady: (pid: number) => boolean | Promise<boolean>
}

/** Long enough to recover after a crash on a busy machine. */
const startMs = 60_000
const lookEveryMs = 10
const mostRestarts = 20
const restartEveryMs = 250

/**
 * First its folder and the last signal, then the command. Runs the command and says its process id; each further line
 * on its input runs it again once the one before has ended. At the end of its input it ends the command and its folder.
 */
const keeper = `
folder=$1; last=$2; shift 2
run() { "$@" </dev/null >>"$folder/log" 2>&1 & pid=$!; echo $pid; }
run "$@"
while read -r line; do wait $pid; run "$@"; done
kill -CONT $pid; kill -$last $pid
wait $pid; rm -rf "$folder"
`

/** Starts a server; resolves when it is ready, and rejects with what it printed when it is not. */
export async function keepServer(options: KeepOptions): Promise<KeptServer> {
  const { folder, command, owner = {}, lastSignal } = options
  const child = spawn('sh', ['-c', keeper, 'keeper', folder, lastSignal, ...command], {
    ...owner,
    cwd: folder,
    env: { PATH: searchPath() },
    // Ctrl-C in a terminal is for us, who then end; the server goes after us.
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
          // What it forked in the moment of its death lives a little longer, and a new one refuses to run beside that.
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

/** Outside the range of ports that outgoing connections get, where a client could find itself while the server is down. */
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

/** The server's own processes; each may be in a session of its own, so that they cannot be reached as a group. */
function childrenOf(pid: number): number[] {
  const listed = attempt(() => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'))
  return (listed ?? '').split(' ').filter(Boolean).map(Number)
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  attempt(() => process.kill(pid, signal))
}

/** Dead is also what its keeper has not waited for yet. */
function isAlive(pid: number): boolean {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  return stat !== undefined && !/\) [ZX] /.test(stat)
}

function logOf(folder: string): string {
  return (attempt(() => readFileSync(join(folder, 'log'), 'utf8')) ?? '').slice(-2_000)
}

/** What the work gives, or undefined when it fails. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
