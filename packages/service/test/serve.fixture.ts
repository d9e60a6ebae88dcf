import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { bin, cleanEnvironment, node } from './spawn.fixture.ts'

/** A folder of its own for a service, in which no configuration of ours is found. */
export function serviceFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-serve-'))
  mkdirSync(join(folder, '.git'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface ServeOptions {
  readonly args?: readonly string[]
  readonly environment?: NodeJS.ProcessEnv
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
  /** Ends it in order and gives its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export function startServe(t: TestContext, folder: string, options: ServeOptions = {}): ServeProcess {
  const environment = cleanEnvironment({
    folder,
    cache: join(folder, '.cache'),
    environment: options.environment ?? {},
  })
  const child = spawn(node, [bin, 'serve', '--port', '0', ...(options.args ?? [])], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
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
      const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
      return fetch(`${await ready}${path}`, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } })
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return (await ended).code
    },
  }
}
