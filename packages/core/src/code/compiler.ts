import { spawn } from 'node:child_process'
import { lstat, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { onAbort } from '../resilience/abort.ts'
import type { Slots } from '../resilience/slots.ts'

/** One diagnostic of the compiler about the program. */
export interface Diagnostic {
  readonly line: number
  readonly column: number
  readonly number: number
  readonly message: string
}

/** Options of a compilation. All checks of this process share the slots. */
export interface CompilerSlot {
  readonly slots: Slots
  readonly signal: AbortSignal
  /** The tenant, for fair sharing of the slots. */
  readonly tenant?: string
}

const flags = [
  '--noEmit',
  '--pretty',
  'false',
  '--skipLibCheck',
  '--types',
  '',
  '--lib',
  'es2024',
  '--target',
  'esnext',
  '--module',
  'esnext',
  '--moduleDetection',
  'force',
  // Not strict: output schemas seldom declare required members, and a program that would run should not be refused.
  '--strict',
  'false',
  '--allowJs',
  '--checkJs',
  // An import or a reference of a program may name any file of the host: none is opened.
  '--noResolve',
]

/**
 * Checks a program with the TypeScript compiler, in a separate process that reads only its input files.
 * - Concurrency: one compiler per processor; others wait for a slot.
 * - Cancellation: `signal` ends the wait and the process.
 * - Errors: RUNTIME_UNAVAILABLE when the package `typescript` is not installed or does not start.
 */
export async function compile(
  program: { readonly name: 'main.ts' | 'main.js'; readonly text: string },
  declarations: string,
  { slots, signal, tenant }: CompilerSlot,
): Promise<readonly Diagnostic[]> {
  const compiler = await compilerPath()
  const leave = await slots.take('compiler', availableParallelism(), signal, tenant)
  try {
    return await compileNow([process.execPath, compiler], program, declarations, signal)
  } finally {
    leave()
  }
}

async function compileNow(
  command: readonly string[],
  program: Parameters<typeof compile>[0],
  declarations: string,
  signal: AbortSignal,
): Promise<readonly Diagnostic[]> {
  const folder = await makeFolder()
  try {
    await writeFile(join(folder, program.name), program.text)
    await writeFile(join(folder, 'tools.d.ts'), declarations)
    const said = await compilerOutput([...command, ...flags, program.name, 'tools.d.ts'], folder, signal)
    return diagnosticsIn(said, program.name)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function compilerPath(): Promise<string> {
  const require = createRequire(import.meta.url)
  try {
    const manifest = require.resolve('typescript/package.json')
    const { bin } = require(manifest) as { readonly bin: { readonly tsc: string } }
    return join(dirname(manifest), bin.tsc)
  } catch (cause) {
    const message = 'Programs can be checked only where the package typescript is installed: npm install typescript.'
    throw new ToolError('RUNTIME_UNAVAILABLE', message, { cause, retryable: false, effect: 'none' })
  }
}

/** Lines such as `main.ts(3,5): error TS2345: …`; indented lines belong to the one before. */
function diagnosticsIn(said: string, name: string): Diagnostic[] {
  const found: Diagnostic[] = []
  for (const text of said.split('\n')) {
    const [, file, line, column, number, message] = /^(.+)\((\d+),(\d+)\): error TS(\d+): (.*)$/.exec(text) ?? []
    if (file === name) {
      found.push({ line: Number(line), column: Number(column), number: Number(number), message: message ?? '' })
    }
  }
  return found
}

const mostOutput = 1_048_576

/**
 * Arguments: a folder, then a command. Runs the command. When descriptor 0, the pipe from this process, closes, it removes
 * the folder and kills the process group.
 */
const keeper = `
folder=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- &
compiler=$!
{ read -r word <&3; rm -rf "$folder"; kill -9 0; } >/dev/null &
watcher=$!
exec 3<&-
wait $compiler; code=$?
kill -9 $watcher
exit $code
`

/**
 * Runs a compiler in a folder and returns its output. The compiler shares a process group with a keeper that holds a pipe
 * from this process: when this process dies, the keeper kills the group and removes the folder.
 * - Cancellation: `signal` ends the group.
 * - Errors: RUNTIME_UNAVAILABLE when it does not start, or fails without output.
 */
export async function compilerOutput(command: readonly string[], folder: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const child = spawn('/bin/sh', ['-c', keeper, 'keeper', folder, ...command], {
    cwd: folder,
    env: { GOMEMLIMIT: '512MiB', PATH: '/usr/bin:/bin' },
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  })
  const kill = (): void => killGroup(child.pid)
  const leave = onAbort(signal, kill)
  try {
    return await new Promise<string>((resolve, reject) => {
      let said = ''
      child.stdout.setEncoding('utf8')
      child.stdout.on('data', (chunk: string) => {
        said = said.length > mostOutput ? said : said + chunk
      })
      child.on('error', (cause) => reject(broken(cause)))
      child.on('close', (code, killedBy) => {
        if (signal.aborted) reject(signal.reason)
        else if (killedBy !== null) reject(broken(new Error(`tsc was ended by ${killedBy}`)))
        else if (code !== 0 && said === '') reject(broken(new Error(`tsc ended with exit code ${code}`)))
        else resolve(said)
      })
    })
  } finally {
    leave()
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has already ended.
  }
}

function broken(cause: Error): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', 'The TypeScript compiler could not be started.', {
    cause,
    effect: 'none',
  })
}

const start = 'gantry-check-'
/** Far longer than the time limit of a check, so that an older folder belongs to no running check. */
const forgottenMs = 600_000

/** Creates a folder for one check, and removes stale folders that a crashed machine or container left. */
export async function makeFolder(): Promise<string> {
  const above = tmpdir()
  const left = (await readdir(above)).filter((name) => name.startsWith(start))
  await Promise.all(left.map((name) => removeForgotten(join(above, name))))
  return mkdtemp(join(above, start))
}

/** Only folders of this user: another user could replace its folder during the removal. */
async function removeForgotten(folder: string): Promise<void> {
  try {
    const { uid, mtimeMs } = await lstat(folder)
    if (uid !== process.getuid?.() || Date.now() - mtimeMs < forgottenMs) return
    await rm(folder, { recursive: true, force: true })
  } catch {
    // Another process removed it, or a later check will; this check does not fail because of it.
  }
}
