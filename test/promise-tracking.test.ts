import assert from 'node:assert/strict'
import { executionAsyncId } from 'node:async_hooks'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const setup = join(dirname(import.meta.dirname), 'scripts', 'property-setup.ts')

const report = join(dirname(import.meta.dirname), 'scripts', 'test-report.ts')

/** Runs a test file with this text, and returns its exit code and the report. */
function runFile(text: string, folder: string) {
  const file = join(folder, 'failing.test.mjs')
  writeFileSync(file, `import { test } from 'node:test'\n${text}`)
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const flags = ['--import', setup, '--test', `--test-reporter=${report}`, '--test-reporter-destination=stdout']
  return spawnSync(process.execPath, [...flags, file], { env, timeout: 60_000, encoding: 'utf8' })
}

const exitOf = (text: string, folder: string): number | null => runFile(text, folder).status

test('the test runner tracks no promise', async () => {
  await null
  const first = executionAsyncId()
  await null
  // A tracked promise has an id of its own, which its continuation would see.
  assert.equal(executionAsyncId(), first)
})

test('an uncaught failure in or after a test fails its file', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-failing-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const waits = 'await new Promise((resolve) => setTimeout(resolve, 50))'
  assert.equal(exitOf(`test('passes', async () => { ${waits} })`, folder), 0)
  assert.equal(exitOf(`test('rejects', async () => { void Promise.reject(new Error('no')); ${waits} })`, folder), 1)
  const later = `await null; setTimeout(() => { throw new Error('no') }, 10)`
  assert.equal(exitOf(`test('throws', async () => { ${later}; ${waits} })`, folder), 1)
  assert.equal(exitOf(`test('throws when it has ended', async () => { ${later} })`, folder), 1)
})

test('the report ends with the uncaught error of a failed file and its stack', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-failing-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const rejecting = `const cause = () => Promise.reject(new Error('left alone'))
test('rejects', async () => { void cause(); await new Promise((resolve) => setTimeout(resolve, 50)) })`
  const { stdout } = runFile(rejecting, folder)
  const [, end = ''] = stdout.split('Outside of the tests of ')
  assert.match(
    end,
    /failing\.test\.mjs, which ended with exit code 1:\nUnhandled rejection: Error: left alone\n {4}at cause /,
  )
  assert.match(end, /triggered an unhandledRejection event/)
  assert.doesNotMatch(runFile(`test('passes', () => {})`, folder).stdout, /Outside of/)
})
