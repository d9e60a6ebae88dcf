import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after } from 'node:test'

export const root = dirname(dirname(import.meta.dirname))

/** The folder into which `npm run test:install` installed the tarballs, and the folder of those. */
export const installed = required('GANTRY_INSTALLED')
export const tarballs = required('GANTRY_TARBALLS')

function required(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set; run these tests by \`npm run test:install\`.`)
  return value
}

/** An empty folder in which the installed packages are found, as in a project of one's own; removed after the tests. */
export function emptyFolder(): string {
  const folder = mkdtempSync(join(installed, 'project-'))
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}\n')
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program without what the test run itself has set for Node. */
export function run(file: string, args: readonly string[], cwd: string): Ended {
  const { NODE_OPTIONS, NODE_COMPILE_CACHE, NODE_TEST_CONTEXT, ...env } = process.env
  const { status, stdout, stderr, error } = spawnSync(file, args, { cwd, encoding: 'utf8', env })
  return { status, stdout, stderr: error === undefined ? stderr : `${stderr}${error.message}` }
}

/** Without type stripping, so that a published file that is still TypeScript fails. */
export function node(args: readonly string[], cwd: string): Ended {
  return run(process.execPath, ['--no-experimental-strip-types', ...args], cwd)
}

/** The command as the documentation writes it; never one from the registry. */
export function gantry(args: readonly string[], cwd: string): Ended {
  return run('npx', ['--no', '--loglevel=error', '--', 'gantry', ...args], cwd)
}

/** The user's own compiler, in its own process, with the options as `tsc --init` would have them in a file. */
export function tsc(options: { readonly [name: string]: unknown }, cwd: string): Ended {
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2024',
    strict: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
    ...options,
  }
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  return run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.'], cwd)
}
