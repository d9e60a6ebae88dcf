import { spawn } from 'node:child_process'
import { lstat, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { onAbort } from '../resilience/abort.ts'
import type { Slots } from '../resilience/slots.ts'

/** One thing that the compiler has to say of the program. */
export interface Diagnostic {
  readonly line: number
  readonly column: number
  readonly number: number
  readonly message: string
}

/** What compilers run under: the turns are shared with all who check in this process. */
export interface CompilerSlot {
  readonly turns: Slots
  readonly signal: AbortSignal
  /** Tenants take turns. */
  readonly tenant?: string
}

const flags = [
  ...['--noEmit', '--pretty', 'false', '--skipLibCheck', '--types', '', '--lib', 'es2024'],
  ...['--target', 'esnext', '--module', 'esnext', '--moduleDetection', 'force'],
  // Not strict: outputs seldom say which members are always there, and a program that would run should not be refused.
  ...['--strict', 'false', '--allowJs', '--checkJs'],
  // A program may name any file of this machine by an import or a reference: none is opened.
  '--noResolve',
]

/**
 * Checks a program by the TypeScript compiler, in a process of its own that reads nothing but what it is given.
 * - Concurrency: as many at a time as there are processors; others wait for their turn.
 * - Cancellation: `signal` ends the wait and the process.
 * - Errors: RUNTIME_UNAVAILABLE when the package `typescript` is not installed or does not start.
 */
export async function compile(
  program: { readonly name: 'main.ts' | 'main.js'; readonly text: string },
  declarations: string,
  { turns, signal, tenant }: CompilerSlot,
): Promise<readonly Diagnostic[]> {
  const compiler = await compilerPath()
  const leave = await turns.take('compiler', availableParallelism(), signal, tenant)
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

/** Lines such as `main.ts(3,5): error TS2345: …`; those further in belong to the one before. */
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
 * First a folder, then a command. Runs the command; when descriptor 0 closes, which is our end of it, it removes the
 * folder and ends the whole group.
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
 * Runs a compiler in a folder and gives what it printed. It is in a group of its own with a keeper that holds a pipe from
 * us: should we die, however we do, it ends at once, and the folder with it.
 * - Cancellation: `signal` ends the group.
 * - Errors: RUNTIME_UNAVAILABLE when it does not run, or prints nothing and fails.
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
    // It is gone already.
  }
}

function broken(cause: Error): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', 'The TypeScript compiler does not run here.', { cause, effect: 'none' })
}

const start = 'gantry-check-'
/** Many times what a check may take, so that what is older is nobody's any more. */
const forgottenMs = 600_000

/** Makes a folder for one check, and removes those that were left when a whole machine or container went down. */
export async function makeFolder(): Promise<string> {
  const above = tmpdir()
  const left = (await readdir(above)).filter((name) => name.startsWith(start))
  await Promise.all(left.map((name) => removeForgotten(join(above, name))))
  return mkdtemp(join(above, start))
}

/** Only our own: another's folder can be made into something else while it is removed. */
async function removeForgotten(folder: string): Promise<void> {
  try {
    const { uid, mtimeMs } = await lstat(folder)
    if (uid !== process.getuid?.() || Date.now() - mtimeMs < forgottenMs) return
    await rm(folder, { recursive: true, force: true })
  } catch {
    // Somebody else was faster, or the next one is luckier; no check fails by it.
  }
}
