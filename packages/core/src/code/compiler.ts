import { rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Slots } from '../resilience/slots.ts'
import { makeFolder } from './compiler-folder.ts'
import { compilerOutput } from './compiler-process.ts'

/** One thing that the compiler has to say of the program. */
export interface Diagnostic {
  readonly line: number
  readonly column: number
  readonly number: number
  readonly message: string
}

/** What compilers run under: the turns are shared with all who check in this process. */
export interface CompilerTurn {
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
  { turns, signal, tenant }: CompilerTurn,
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
