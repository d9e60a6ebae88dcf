import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'

const module = join(dirname(import.meta.dirname), 'scripts', 'run-campaigns.ts')

/** Runs files with these texts, and returns how the run ended and what it printed. */
function campaignsOf(t: TestContext, texts: { readonly [name: string]: string }) {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-campaigns-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const modules = Object.entries(texts).map(([name, text]) => {
    const file = join(folder, `${name}.test.mjs`)
    writeFileSync(file, `import { test } from 'node:test'\n${text}`)
    return file
  })
  const main = join(folder, 'main.mjs')
  const options = JSON.stringify({ root: folder, modules, folder, longestMs: 60_000 })
  writeFileSync(
    main,
    `import { runCampaigns } from '${pathToFileURL(module)}'
console.log('end:', await runCampaigns({ ...${options}, env: process.env }))`,
  )
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { stdout } = spawnSync(process.execPath, [main], { env, encoding: 'utf8', timeout: 120_000 })
  return { end: /^end: (.+)$/m.exec(stdout)?.[1], stdout }
}

const passes = `test('passes', () => {})`
const fails = `test('fails', () => { throw new Error('always') })`
/** Fails in the first process that loads it. */
const failsOnce = `import { existsSync, writeFileSync } from 'node:fs'
const mark = import.meta.filename + '.mark'
const first = !existsSync(mark)
writeFileSync(mark, '')
test('fails once', () => { if (first) process.kill(process.pid, 'SIGKILL') })
test('passes behind it', () => {})`

test('a campaign that fails once is repeated alone, and its first failure and its name are printed', (t) => {
  const { end, stdout } = campaignsOf(t, { steady: passes, odd: failsOnce })
  assert.equal(end, 'unsteady')
  assert.match(stdout, /odd\.test\.mjs, which ended with SIGKILL/)
  assert.match(stdout, /Unsteady: odd failed beside other files and passed alone/)
})

test('a campaign that fails twice, and more than two that fail, fail the run', (t) => {
  assert.equal(campaignsOf(t, { steady: passes, broken: fails }).end, 'failed')
  const { end, stdout } = campaignsOf(t, { a: failsOnce, b: failsOnce, c: failsOnce })
  assert.equal(end, 'failed')
  assert.doesNotMatch(stdout, /Once more/)
})

test('campaigns that pass are not repeated', (t) => {
  const { end, stdout } = campaignsOf(t, { one: passes, other: passes })
  assert.equal(end, 'passed')
  assert.doesNotMatch(stdout, /Once more/)
})
