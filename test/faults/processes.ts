import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { briefFlags } from '../../packages/service/test/spawn.fixture.ts'
import { commonClock } from './ledgers.ts'

const bin = join(import.meta.dirname, '../../packages/gantry/bin/gantry.mjs')

export interface NodeOptions {
  /** The folder of the configuration, and the working directory. */
  readonly folder: string
  readonly data: string
  readonly port: number
  readonly roles?: readonly string[]
  readonly databaseUrl?: string | undefined
  /** A value in the environment that identifies the process and all its descendants. */
  readonly mark: string
  readonly environment?: NodeJS.ProcessEnv
  /** Options of Node, such as `--import`. */
  readonly flags?: readonly string[]
  /** A program with arguments that starts the node, such as `prlimit`. */
  readonly under?: readonly string[]
}

/** A `gantry serve` process. */
export interface ServiceNode {
  readonly pid: number
  readonly port: number
  /** Resolves when it is ready; rejects with its log if it exits before. */
  readonly ready: Promise<void>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly alive: boolean
  /** When a signal ended it, by the common clock. */
  readonly killedAt: number | undefined
  signal(name: NodeJS.Signals): void
  /** Sends SIGKILL, and waits for the exit. */
  kill(): Promise<void>
  /** Sends SIGTERM; the exit code, or null if it had to be killed. */
  stop(): Promise<number | null>
  /** The end of its log. */
  readonly said: string
}

const stopMs = 40_000
const mostSaid = 20_000

export function startNode(options: NodeOptions): ServiceNode {
  const { folder, data, port, roles, databaseUrl, mark, environment, flags = [], under = [] } = options
  const roleFlags = (roles ?? []).flatMap((role) => ['--role', role])
  const command = [...under, process.execPath, '--no-warnings', ...briefFlags, ...flags, bin, 'serve', '--json']
  const [program = '', ...args] = [...command, '--data', data, '--port', String(port), ...roleFlags]
  const inherited = Object.entries(process.env).filter(
    // Node's compile cache stays, because a start without it strips the types of every module again.
    ([name]) => !/^(?:GANTRY_|NODE_(?!COMPILE_CACHE$)|DATABASE_URL|REDIS_URL|KAFKA_|S3_)/.test(name),
  )
  const child = spawn(program, args, {
    cwd: folder,
    env: {
      ...Object.fromEntries(inherited),
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
      GANTRY_BUNDLE: 'off',
      FAULT_MARK: mark,
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const heard: { said: string; alive: boolean; killedAt?: number } = { said: '', alive: true }
  child.stderr.on('data', (chunk) => {
    // FAULT_SHOW=1 prints the logs of the nodes.
    if (process.env.FAULT_SHOW) process.stderr.write(`${child.pid}: ${chunk}`)
    heard.said = (heard.said + chunk).slice(-mostSaid)
  })
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      heard.alive = false
      if (signal !== null) heard.killedAt = commonClock()
      resolve({ code, signal })
    })
  })
  const ready = Promise.race([
    firstLine(child),
    ended.then(({ code, signal }) => Promise.reject(new Error(`It ended with ${signal ?? code}:\n${heard.said}`))),
  ])
  ready.catch(() => undefined)
  return {
    pid: child.pid ?? 0,
    port,
    ready,
    ended,
    get alive() {
      return heard.alive
    },
    get killedAt() {
      return heard.killedAt
    },
    get said() {
      return heard.said
    },
    signal: (name) => void child.kill(name),
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    async stop() {
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), stopMs)
      const { code } = await ended
      clearTimeout(timer)
      return code
    },
  }
}

async function firstLine(child: ChildProcess): Promise<void> {
  if (child.stdout === null) return
  const lines = createInterface({ input: child.stdout })
  await new Promise<void>((resolve) => lines.once('line', () => resolve()))
}

/** The pids of all processes with the mark in their environment. */
export function marked(mark: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`FAULT_MARK=${mark}\0`)
      } catch {
        return false
      }
    })
    .map(Number)
}

/** Polls until `holds` is true; false after the limit. */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 30_000): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!(await holds())) {
    if (performance.now() > end) return false
    await sleep(20)
  }
  return true
}

/** The resident memory of a process. */
export function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(line?.[1] ?? 0) * 1_024
}
