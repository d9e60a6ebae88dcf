import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { bin, cleanEnvironment, node } from './spawn.fixture.ts'

/** A folder of its own for a service, in which no configuration of ours is found; with a copy of `database`, if there is one. */
export function serviceFolder(t: TestContext, database?: string): string {
  const folder = engineFolder('serve')
  mkdirSync(join(folder, '.git'))
  if (database !== undefined && existsSync(database))
    cpSync(database, join(folder, '.gantry', 'db'), { recursive: true })
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A status and the JSON that came with it; a test knows what it asked for. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
export type Answer = { readonly status: number; readonly value: any }

export interface ServeOptions {
  readonly args?: readonly string[]
  readonly environment?: NodeJS.ProcessEnv
  /** The user that it runs as, whose the folder then must be. */
  readonly uid?: number
}

/** A `gantry serve` in a process of its own; one that still runs when the test ends is killed. */
export interface ServeProcess {
  readonly child: ChildProcess
  /** What it printed until now. */
  readonly printed: { out: string; err: string }
  /** Resolves with the address once it is ready; rejects when it ends before. */
  readonly ready: Promise<string>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  /** A request with the key of the folder. */
  ask(path: string, init?: RequestInit): Promise<Response>
  post(path: string, body: unknown): Promise<Answer>
  get(path: string): Promise<Answer>
  /** Ends it in order and gives its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** What Node has made of the sources before, so that a start does not make it again. */
function compileCache(): NodeJS.ProcessEnv {
  const folder = process.env.NODE_COMPILE_CACHE
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder }
}

export function startServe(t: TestContext, folder: string, options: ServeOptions = {}): ServeProcess {
  const environment = cleanEnvironment({
    folder,
    cache: join(folder, '.cache'),
    environment: { ...compileCache(), ...options.environment },
  })
  const child = spawn(node, [bin, 'serve', '--port', '0', ...(options.args ?? [])], {
    cwd: folder,
    env: environment,
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
