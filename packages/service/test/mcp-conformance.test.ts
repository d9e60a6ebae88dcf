import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { openSuiteServer } from './mcp-conformance.fixture.ts'

const modules = join(dirname(import.meta.dirname), '..', '..', 'node_modules')
const latest = join(modules, '@modelcontextprotocol', 'conformance', 'dist', 'index.js')
const next = join(modules, 'mcp-conformance-next', 'dist', 'index.js')

interface Run {
  readonly code: number | null
  readonly text: string
}

/** Runs a suite in its own folder, because it writes its results there. */
function suite(program: string, args: readonly string[]): Promise<Run> {
  const cwd = mkdtempSync(join(tmpdir(), 'gantry-suite-'))
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, 'server', ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    const pieces: Buffer[] = []
    child.stdout.on('data', (piece: Buffer) => pieces.push(piece))
    child.stderr.on('data', (piece: Buffer) => pieces.push(piece))
    child.on('error', reject)
    child.on('close', (code) => {
      rmSync(cwd, { recursive: true, force: true })
      resolve({ code, text: Buffer.concat(pieces).toString('utf8') })
    })
  })
}

/** The suites wait only half a second for some responses, so that a busy machine gets two retries. */
async function patientSuite(program: string, args: readonly string[]): Promise<Run> {
  for (let tries = 1; ; tries++) {
    const run = await suite(program, args)
    if (run.code === 0 || tries === 3) return run
  }
}

/** The numbers of passed and of all scored scenarios. */
function scored(text: string): { readonly passed: number; readonly all: number } {
  const [summary = '', beside = ''] = (text.split('=== SUMMARY ===')[1] ?? '').split(/^Not scored/m)
  const uncounted = new Set([...beside.matchAll(/^ {2}[✓✗] (\S+)/gm)].map(([, name]) => name))
  const counted = [...summary.matchAll(/^([✓✗]) (\S+):/gm)].filter(([, , name]) => !uncounted.has(name))
  return { passed: counted.filter(([, mark]) => mark === '✓').length, all: counted.length }
}

// docs/mcp-server.md has these numbers.
for (const [revision, all] of [
  ['2026-07-28', 37],
  ['2025-11-25', 30],
] as const) {
  test(`every scenario that the newest suite scores for ${revision} passes`, { timeout: 240_000 }, async (t) => {
    const { url } = await openSuiteServer(t)
    const { code, text } = await patientSuite(next, ['--url', url, '--requirements', revision])
    assert.equal(code, 0, text.slice(-6_000))
    assert.deepEqual(scored(text), { passed: all, all })
  })
}

test('every scenario of the released suite passes', { timeout: 240_000 }, async (t) => {
  const { url } = await openSuiteServer(t)
  const { code, text } = await patientSuite(latest, ['--url', url])
  assert.equal(code, 0, text.slice(-6_000))
  assert.deepEqual(scored(text), { passed: 30, all: 30 })
})
