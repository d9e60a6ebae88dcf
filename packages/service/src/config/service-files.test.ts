import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { ensureApiKey, readAddress, readApiKey, writeAddress } from './service-files.ts'

async function folder(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'gantry-key-'))
  t.after(() => rm(made, { recursive: true }))
  return made
}

const isInvalid = (error: unknown): boolean => ToolError.is(error) && error.code === 'CONFIG_INVALID'

test('the first start creates a key file with mode 0600, and later starts read it', async (t) => {
  const file = join(await folder(t), 'deep', 'key')
  assert.equal(await readApiKey(file), undefined)
  const first = await ensureApiKey(file)
  assert.match(first.key, /^gk_[A-Za-z0-9_-]{43}$/)
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  assert.deepEqual(await ensureApiKey(file), { key: first.key, created: false })
  assert.equal(await readFile(file, 'utf8'), `${first.key}\n`)
})

test('concurrent starts create one key, all return it, and no temporary file stays', async (t) => {
  const at = await folder(t)
  const all = await Promise.all(Array.from({ length: 20 }, () => ensureApiKey(join(at, 'key'))))
  assert.equal(new Set(all.map(({ key }) => key)).size, 1)
  assert.equal(all.filter(({ created }) => created).length, 1)
  assert.deepEqual(await readdir(at), ['key'])
})

test('a key file that is readable by others, is a symlink or holds no key is refused', async (t) => {
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

test('a start removes the drafts of killed processes, and none of a process that lives', async (t) => {
  const at = await folder(t)
  const { pid: dead } = spawnSync(process.execPath, ['--version'])
  const draft = (pid: number, file = 'service.json'): string => `${file}.${pid}-0123abcd.tmp`
  const earlier = draft(process.pid)
  for (const name of [draft(dead), draft(dead, 'key'), draft(process.ppid), earlier, 'service.json.notes']) {
    await writeFile(join(at, name), 'partly')
  }
  await utimes(join(at, earlier), new Date(0), new Date(0))
  await ensureApiKey(join(at, 'key'))
  await writeAddress(at, { url: 'http://127.0.0.1:1', pid: process.pid, config: null })
  assert.deepEqual(
    (await readdir(at)).sort(),
    ['key', 'service.json', draft(process.ppid), 'service.json.notes'].sort(),
  )
  assert.equal((await readAddress(at))?.pid, process.pid)
})
