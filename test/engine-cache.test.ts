import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { cachedEngine } from '../scripts/engines/cache.ts'

function cache(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), 'gantry-cache-'))
  const before = process.env.XDG_CACHE_HOME
  process.env.XDG_CACHE_HOME = home
  t.mock.method(console, 'error', () => {})
  t.after(() => {
    if (before === undefined) delete process.env.XDG_CACHE_HOME
    else process.env.XDG_CACHE_HOME = before
    rmSync(home, { recursive: true })
  })
  return join(home, 'gantry/engines')
}

test('an engine is built once for each version, also when two processes need it at once', async (t) => {
  const home = cache(t)
  let built = 0
  const build = async (folder: string): Promise<void> => {
    built += 1
    await new Promise((resolve) => setImmediate(resolve))
    writeFileSync(join(folder, 'program'), 'it')
  }
  const [one, two] = await Promise.all([cachedEngine('it', '1', build), cachedEngine('it', '1', build)])
  assert.equal(one, two)
  assert.equal(readFileSync(join(one, 'program'), 'utf8'), 'it')
  const before = built
  assert.equal(await cachedEngine('it', '1', build), one)
  assert.equal(built, before)
  assert.notEqual(await cachedEngine('it', '2', build), one)
  assert.deepEqual(readdirSync(home).sort(), ['it-1', 'it-2'])
})

test('a failed build leaves nothing behind, and the next one may succeed', async (t) => {
  const home = cache(t)
  const failing = cachedEngine('it', '1', async (folder) => {
    writeFileSync(join(folder, 'half'), '')
    throw new Error('no network')
  })
  await assert.rejects(failing, /no network/)
  assert.deepEqual(readdirSync(home), [])
  const folder = await cachedEngine('it', '1', async (draft) => writeFileSync(join(draft, 'whole'), ''))
  assert.deepEqual(readdirSync(folder), ['whole'])
})
