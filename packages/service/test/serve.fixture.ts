import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { pgliteTemplate } from './databases.fixture.ts'
import { bin, briefFlags, cleanEnvironment, node } from './spawn.fixture.ts'

/** A folder for a service, with a copy of `database` if given; the search for a configuration ends in it. */
export function serviceFolder(t: TestContext, database?: string): string {
  const folder = engineFolder('serve')
  mkdirSync(join(folder, '.git'))
  if (database !== undefined && existsSync(database)) {
    // Any other folder would be taken for an empty database, and created anew in seconds.
    if (!existsSync(join(database, 'PG_VERSION'))) throw new Error(`${database} holds no database`)
    cpSync(database, join(folder, '.gantry', 'db'), { recursive: true })
  }
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A folder for a service with a migrated database, so that its start need not create one. */
export async function migratedFolder(t: TestContext): Promise<string> {
  return serviceFolder(t, join(await pgliteTemplate(), 'db'))
}

/** A folder for a service whose tools append a line to `ledger` at each run; `ran` returns the lines so far. */
export function ledgerFolder(t: TestContext, config: (ledger: string) => string) {
  const folder = serviceFolder(t)
  const ledger = join(folder, 'ran.log')
  writeFileSync(join(folder, 'gantry.config.mjs'), config(JSON.stringify(ledger)))
  const ran = (): string[] => (existsSync(ledger) ? readFileSync(ledger, 'utf8').trim().split('\n') : [])
  return { folder, ran }
}

/** A status with its JSON body, untyped. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
export type Answer = { readonly status: number; readonly value: any }

export interface ServeOptions {
  readonly args?: readonly string[]
  readonly environment?: NodeJS.ProcessEnv
  /** The user that it runs as, who must own the folder. */
  readonly uid?: number
}

/** A `gantry serve` in its own process, killed at the end of the test. */
export interface ServeProcess {
  readonly child: ChildProcess
  /** The output so far. */
  readonly printed: { out: string; err: string }
  /** Resolves with the address once it is ready; rejects if it exits before. */
  readonly ready: Promise<string>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  /** A request with the key of the folder. */
  ask(path: string, init?: RequestInit): Promise<Response>
  post(path: string, body: unknown): Promise<Answer>
  get(path: string): Promise<Answer>
  /** Stops it by a signal, and resolves with its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** Polls until the state holds, at most as long as the test runs. */
export async function until(t: TestContext, holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(20, undefined, { signal: t.signal })
}

export function startServe(t: TestContext, folder: string, options: ServeOptions = {}): ServeProcess {
  const { environment = {} } = options
  const child = spawn(node, [...briefFlags, bin, 'serve', '--port', '0', ...(options.args ?? [])], {
    cwd: folder,
    env: cleanEnvironment({ folder, cache: join(folder, '.cache'), environment }),
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  })
  const printed = { out: '', err: '' }
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }))
  })
  const ready = new Promise<string>((resolve, reject) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed.out += text
      if (/^ready$/m.test(printed.out)) resolve(/listening on (\S+)/.exec(printed.out)?.[1] ?? '')
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      printed.err += text
    })
    ended.then(({ code }) => reject(new Error(`gantry serve ended with ${code} before it was ready:\n${printed.err}`)))
  })
  ready.catch(() => undefined)
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    child,
    printed,
    ready,
    ended,
    async ask(path, init = {}) {
      const url = await ready
      const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
      const own = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      return fetch(`${url}${path}`, { ...init, headers: { ...own, ...init.headers } })
    },
    async post(path, body) {
      const text = typeof body === 'string' ? body : JSON.stringify(body)
      const response = await this.ask(path, { method: 'POST', body: text })
      return { status: response.status, value: await response.json() }
    },
    async get(path) {
      const response = await this.ask(path)
      return { status: response.status, value: await response.json() }
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return (await ended).code
    },
  }
}
