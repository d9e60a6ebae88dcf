import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'

/** One thing that the compiler has to say of the program. */
export interface Diagnostic {
  readonly line: number
  readonly column: number
  readonly number: number
  readonly message: string
}

const longestMs = 30_000
const mostOutput = 1_048_576
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
 * - Cancellation: `signal` ends the process; so do 30 seconds, as LIMIT_EXCEEDED.
 * - Errors: RUNTIME_UNAVAILABLE when the package `typescript` is not installed or does not start.
 */
export async function compile(
  program: { readonly name: 'main.ts' | 'main.js'; readonly text: string },
  declarations: string,
  signal: AbortSignal,
): Promise<readonly Diagnostic[]> {
  const compiler = await compilerPath()
  const folder = await mkdtemp(join(tmpdir(), 'gantry-check-'))
  try {
    await writeFile(join(folder, program.name), program.text)
    await writeFile(join(folder, 'tools.d.ts'), declarations)
    const said = await output(compiler, [...flags, program.name, 'tools.d.ts'], folder, signal)
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

async function output(path: string, words: readonly string[], folder: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  // In a group of its own, because on some machines it is another process that does the work.
  const child = spawn(process.execPath, [path, ...words], {
    cwd: folder,
    env: { GOMEMLIMIT: '512MiB' },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  const kill = (): void => killGroup(child.pid)
  const timer = setTimeout(kill, longestMs)
  signal.addEventListener('abort', kill, { once: true })
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
        else if (killedBy !== null) reject(tooLong())
        else if (code !== 0 && said === '') reject(broken(new Error(`tsc ended with exit code ${code}`)))
        else resolve(said)
      })
    })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', kill)
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It is gone already.
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

function tooLong(): ToolError {
  const message = `The check of the program did not end within ${longestMs} ms.`
  return new ToolError('LIMIT_EXCEEDED', message, { effect: 'none', details: { limit: 'checkMs' } })
}

function broken(cause: Error): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', 'The TypeScript compiler does not run here.', { cause, effect: 'none' })
}
