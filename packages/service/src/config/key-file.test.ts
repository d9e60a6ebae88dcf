import assert from 'node:assert/strict'
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { ensureApiKey, readApiKey } from './key-file.ts'

async function folder(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'gantry-key-'))
  t.after(() => rm(made, { recursive: true }))
  return made
}

const isInvalid = (error: unknown): boolean => ToolError.is(error) && error.code === 'CONFIG_INVALID'

test('the first start makes a key that only its owner may read, the next ones find it', async (t) => {
  const file = join(await folder(t), 'deep', 'key')
  assert.equal(await readApiKey(file), undefined)
  const first = await ensureApiKey(file)
  assert.match(first.key, /^gk_[A-Za-z0-9_-]{43}$/)
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  assert.deepEqual(await ensureApiKey(file), { key: first.key, created: false })
  assert.equal(await readFile(file, 'utf8'), `${first.key}\n`)
})

test('of many that start at once, one makes the key and all have it; nothing else is left', async (t) => {
  const at = await folder(t)
  const all = await Promise.all(Array.from({ length: 20 }, () => ensureApiKey(join(at, 'key'))))
  assert.equal(new Set(all.map(({ key }) => key)).size, 1)
  assert.equal(all.filter(({ created }) => created).length, 1)
  assert.deepEqual(await readdir(at), ['key'])
})

test('a key file that others may read, that is a link, or that holds something else is refused', async (t) => {
  const at = await folder(t)
  const file = join(at, 'key')
  await ensureApiKey(file)
  await chmod(file, 0o644)
  await assert.rejects(ensureApiKey(file), isInvalid)
  await symlink(file, join(at, 'link'))
  await chmod(file, 0o600)
  await assert.rejects(readApiKey(join(at, 'link')), isInvalid)
  await assert.rejects(readApiKey(at), isInvalid)
  for (const text of ['', 'gk_short', 'x'.repeat(2_000)]) {
    await writeFile(join(at, 'other'), text, { mode: 0o600 })
    await assert.rejects(
      readApiKey(join(at, 'other')),
      (error) => isInvalid(error) && !String(error).includes('gk_short'),
    )
  }
})
