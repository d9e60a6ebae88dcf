import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { createLanguages } from '../languages/languages.ts'

/** The folder of the drivers. */
export const drivers = join(import.meta.dirname, '../../native/drivers')

/** The parts of a job other than its code. */
export interface DriverJob {
  readonly env?: { readonly [name: string]: string }
  readonly argv?: readonly string[]
  readonly deterministic?: { readonly seed: number; readonly nowMs: number }
  readonly stdin?: string
  /** Environment at the start of the interpreter. */
  readonly startEnv?: { readonly [name: string]: string }
  readonly files?: { readonly [path: string]: string }
}

export interface DriverEnd {
  readonly exit: number | string
  readonly stdout: string
  readonly stderr: string
  /** Lines on descriptor 3. */
  readonly said: readonly { readonly [key: string]: unknown }[]
}

/** The command that starts a driver outside of a sandbox. */
export function driverCommand(language: string): readonly [string, ...string[]] {
  const { driver } = createLanguages().get(language)
  if (driver === undefined) throw new Error(`${language} has no driver`)
  const [program, ...rest] = driver.map((word) =>
    word
      .replace('{node}', process.execPath)
      .replace('{drivers}', drivers)
      .replace(/^python3$/, '/usr/bin/python3'),
  )
  return [program ?? '', ...rest]
}

/** An empty folder that is removed after the test. */
export function emptyFolder(t: TestContext, files: DriverJob['files'] = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-driver-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, content] of Object.entries(files)) writeFileSync(join(folder, path), content)
  return folder
}

interface Started {
  readonly child: ChildProcess
  readonly channel: Duplex
  readonly stdout: Promise<string>
  readonly stderr: Promise<string>
}

/** Starts a driver that waits for its job; it is killed after the test. */
export function startDriver(t: TestContext, language: string, job: DriverJob = {}): Started {
  const [program, ...words] = driverCommand(language)
  const child = spawn(program, words, {
    cwd: emptyFolder(t, job.files),
    env: { PATH: '/usr/bin:/bin', ...job.startEnv },
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  })
  t.after(() => child.kill('SIGKILL'))
  const channel = child.stdio[3] as Duplex
  for (const stream of [channel, child.stdin]) stream?.on('error', () => undefined)
  child.stdin?.end(job.stdin ?? '')
  return { child, channel, stdout: text(child.stdout ?? []), stderr: text(child.stderr ?? []) }
}

/** The job as one line. */
export function jobLine(code: string, { env = {}, argv, deterministic }: DriverJob = {}, more: object = {}): string {
  return `${JSON.stringify({ code, env, argv, deterministic, ...more })}\n`
}

/** Runs one program with its driver to its end. */
export async function runCode(t: TestContext, language: string, code: string, job: DriverJob = {}): Promise<DriverEnd> {
  const { child, channel, stdout, stderr } = startDriver(t, language, job)
  channel.write(jobLine(code, job))
  const [lines, [exitCode, signal]] = await Promise.all([text(channel), once(child, 'close')])
  const said = lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
  return { exit: exitCode ?? signal, stdout: await stdout, stderr: await stderr, said }
}

/** A session: `cell` runs code in it and returns the messages up to its done line. */
export function startCells(t: TestContext, language: string, job: DriverJob = {}) {
  const { child, channel, stdout, stderr } = startDriver(t, language, job)
  const lines = createInterface({ input: channel })[Symbol.asyncIterator]()
  return {
    async cell(code: string): Promise<DriverEnd['said']> {
      channel.write(jobLine(code, job, { session: true }))
      const said: { readonly [key: string]: unknown }[] = []
      while (said.at(-1)?.done !== true) {
        const { value, done } = await lines.next()
        if (done === true) throw new Error('The session ended.')
        said.push(JSON.parse(value))
      }
      return said
    },
    async end(): Promise<DriverEnd> {
      channel.end()
      const [exitCode, signal] = await once(child, 'close')
      return { exit: exitCode ?? signal, stdout: await stdout, stderr: await stderr, said: [] }
    },
  }
}
