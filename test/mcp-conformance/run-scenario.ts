import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The suite in the version that was current for 2025-11-25, and the one that knows 2026-07-28. */
export type Suite = '@modelcontextprotocol/conformance' | 'mcp-conformance-next'

export interface Outcome {
  readonly passed: number
  readonly failed: number
  /** The verdict of the suite. */
  readonly ok: boolean
  /** Its output, for the message of a failed test. */
  readonly text: string
}

const root = join(import.meta.dirname, '..', '..')

/** Runs one client scenario of the official suite against our backend. */
export async function runScenario(suite: Suite, scenario: string, revision?: string): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-mcp-'))
  try {
    const command = `${process.execPath} ${join(root, 'test', 'mcp-conformance', 'client.ts')}`
    const program = [join(root, 'node_modules', suite, 'dist', 'index.js'), 'client', '--command', command]
    const version = revision === undefined ? [] : ['--spec-version', revision]
    const { ok, text } = await run([...program, '--scenario', scenario, ...version, '--output-dir', folder])
    const [, passed = '0', all = '0'] = /Passed: (\d+)\/(\d+), \d+ failed/.exec(text) ?? []
    return { passed: Number(passed), failed: Number(all) - Number(passed), ok, text }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function run(args: readonly string[]): Promise<{ readonly ok: boolean; readonly text: string }> {
  const { promise, resolve } = Promise.withResolvers<{ ok: boolean; text: string }>()
  const options = { cwd: tmpdir(), timeout: 120_000, maxBuffer: 64 * 1_048_576 }
  execFile(process.execPath, args, options, (error, stdout, stderr) => {
    resolve({ ok: error === null, text: `${stdout}\n${stderr}` })
  })
  return promise
}
