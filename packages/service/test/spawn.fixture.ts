import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

export const bin = join(import.meta.dirname, '../../gantry/bin/gantry.mjs')
/** The Node that runs the tests: 24 or newer. */
export const node = process.execPath
/** A service of a test ends before optimised WebAssembly pays; compiling it is a third of the cost of a start. */
export const briefFlags = ['--liftoff-only'] as const

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

export interface SpawnOptions {
  readonly folder: string
  readonly cache: string
  readonly input?: string
  readonly environment?: NodeJS.ProcessEnv
  readonly program?: string
  /** Called when the process has started. */
  readonly onStart?: (child: ChildProcess) => void
}

/**
 * The environment without variables that the test runner or the machine may have set. Node's compile cache stays:
 * stripping the types of all modules again takes longer than most commands.
 */
export function cleanEnvironment({ cache, environment }: SpawnOptions): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(?:GANTRY_|NODE_(?!COMPILE_CACHE$))/.test(name))
  return { ...Object.fromEntries(inherited), XDG_CACHE_HOME: cache, ...environment }
}

/** Runs the `gantry` command to its end. */
export function gantry(args: readonly string[], options: SpawnOptions): Promise<Ended> {
  return run(options.program ?? node, [bin, ...args], options)
}

/** Runs a bash command line with `gantry` as a function, and with pipefail. */
export function shell(line: string, options: SpawnOptions): Promise<Ended> {
  const script = `set -o pipefail; node=$1 bin=$2; gantry() { "$node" "$bin" "$@"; }; ${line}`
  return run('bash', ['-c', script, 'bash', node, bin], options)
}

async function run(program: string, args: readonly string[], options: SpawnOptions): Promise<Ended> {
  const child = spawn(program, args, {
    cwd: options.folder,
    env: cleanEnvironment(options),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  options.onStart?.(child)
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  const ended = new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (...end) => resolve(end))
  })
  const [out, err, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { code, signal, out, err }
}
