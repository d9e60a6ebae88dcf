import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { commonClock } from './ledgers.ts'

const bin = join(import.meta.dirname, '../../packages/gantry/bin/gantry.mjs')

export interface NodeOptions {
  /** Of the configuration, and where it runs. */
  readonly folder: string
  readonly data: string
  readonly port: number
  readonly roles?: readonly string[]
  readonly databaseUrl?: string | undefined
  /** A mark in the environment by which everything that it started is found. */
  readonly mark: string
  readonly environment?: NodeJS.ProcessEnv
  /** For Node itself, such as `--import`. */
  readonly flags?: readonly string[]
  /** A program and its arguments that runs it, such as `prlimit`. */
  readonly under?: readonly string[]
}

/** A `gantry serve` of our own. */
export interface ServiceNode {
  readonly pid: number
  readonly port: number
  /** Resolves when it takes calls; rejects with what it said when it ends before. */
  readonly ready: Promise<void>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly alive: boolean
  /** When a signal had ended it, by the common clock. */
  readonly killedAt: number | undefined
  signal(name: NodeJS.Signals): void
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>
  /** SIGTERM, and its exit code; null when it had to be killed. */
  stop(): Promise<number | null>
  /** What it logged last. */
  readonly said: string
}

const stopMs = 40_000
const mostSaid = 20_000

export function startNode(options: NodeOptions): ServiceNode {
  const { folder, data, port, roles, databaseUrl, mark, environment, flags = [], under = [] } = options
  const roleFlags = (roles ?? []).flatMap((role) => ['--role', role])
  const command = [...under, process.execPath, '--no-warnings', ...flags, bin, 'serve', '--json']
  const [program = '', ...args] = [...command, '--data', data, '--port', String(port), ...roleFlags]
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(?:GANTRY_|NODE_|DATABASE_URL|REDIS_URL|KAFKA_|S3_)/.test(name),
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
    // FAULT_SHOW=1 shows what the nodes say while they say it.
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

/** Processes that carry the mark, ours and all that they started. */
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

/** Waits until something holds; false when it never did. */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 30_000): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!(await holds())) {
    if (performance.now() > end) return false
    await sleep(20)
  }
  return true
}

/** Bytes of memory that a process has in use. */
export function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(line?.[1] ?? 0) * 1_024
}
