import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { differences, runChild } from '../child.ts'
import type { Fence } from './page.ts'

/** A file name for a fence that names its page and line. */
function nameOf({ page, line }: Fence): string {
  return `${page.replaceAll(/[^A-Za-z0-9]+/g, '-')}-L${line}`
}

/** Type-checks all fences in one compiler run, including those that are not run. */
export async function typeFaults(root: string, folder: string, fences: readonly Fence[]): Promise<string[]> {
  const at = join(folder, 'types')
  mkdirSync(at, { recursive: true })
  for (const fence of fences) writeFileSync(join(at, `${nameOf(fence)}.ts`), `${fence.text}\nexport {}\n`)
  const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
  const files = fences.map((fence) => `${nameOf(fence)}.ts`)
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, files, include: [] }
  writeFileSync(join(at, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const { code, stdout, stderr } = await runChild(tsc, ['-p', 'tsconfig.json', '--pretty', 'false'], {
    cwd: at,
    timeoutMs: 120_000,
  })
  if (code === 0) return []
  const own = stdout.split('\n').filter((line) => fences.some((fence) => line.includes(`${nameOf(fence)}.ts(`)))
  return own.length > 0 ? own : [stdout + stderr]
}

/** Runs one fence in its own process; a text or JSON fence right after it is the expected output. */
export async function runFault(folder: string, fence: Fence): Promise<string | undefined> {
  // Node strips no types from files below node_modules, but it does from a program given on the command line.
  const program = ['--input-type=module-typescript', '--eval', fence.text]
  const { code, stdout, stderr } = await runChild(process.execPath, program, { cwd: folder })
  const at = `${fence.page}:${fence.line}`
  if (code !== 0) return `${at} ended with ${code === undefined ? 'a signal' : `exit code ${code}`}\n${stdout}${stderr}`
  const wanted = fence.next
  if (wanted === undefined || !['text', 'json'].includes(wanted.language)) return undefined
  const lines = differences(wanted.text, stdout.replace(/\n$/, ''))
  return lines.length === 0 ? undefined : [`${at} prints something else than the page says`, ...lines].join('\n')
}
