import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

const modules = join(import.meta.dirname, '../../../../../node_modules')

async function gantry(folder: string, ...line: readonly string[]) {
  const io = keptIo({ folder })
  return { code: await runCommandLine(line, io), ...io.printed }
}

test('what init writes is checked, runs, and its test passes', async () => {
  using folder = folderWith({})
  const made = await gantry(folder.path, 'init', 'mine')
  assert.equal(made.code, 0)
  const mine = join(folder.path, 'mine')
  symlinkSync(modules, join(mine, 'node_modules'))
  assert.equal((await gantry(mine, 'config', 'check')).code, 0)
  const ran = await gantry(mine, 'run', 'my:greet', '{"name":"Ada"}')
  assert.deepEqual([ran.code, JSON.parse(ran.out)], [0, { greeting: 'Hello, Ada!' }])
  const { NODE_TEST_CONTEXT: _outer, ...env } = process.env
  const tested = spawnSync(process.execPath, ['--test'], { cwd: mine, encoding: 'utf8', env })
  assert.equal(tested.status, 0, tested.stdout)
  assert.match(tested.stdout, /pass 2/)
})

test('init replaces no file unless it is forced to', async () => {
  using folder = folderWith({ 'tools.mjs': 'mine' })
  const refused = await gantry(folder.path, 'init')
  assert.equal(refused.code, 2)
  assert.match(refused.err, /tools\.mjs exists; --force replaces it/)
  assert.equal(readFileSync(join(folder.path, 'tools.mjs'), 'utf8'), 'mine')
  assert.equal((await gantry(folder.path, 'init', '--force')).code, 0)
})

test('init writes nothing beside a link that leads nowhere, another configuration, or where it cannot write', async () => {
  using folder = folderWith({ 'other/gantry.config.yaml': 'demo: true', file: 'mine', 'linked/keep': '' })
  symlinkSync('nowhere', join(folder.path, 'linked', 'tools.test.mjs'))
  const expected = [
    ['other', /gantry\.config\.yaml is a configuration already/],
    ['file', /file cannot be written/],
    ['linked', /tools\.test\.mjs exists/],
  ] as const
  for (const [name, message] of expected) {
    const refused = await gantry(folder.path, 'init', name)
    assert.equal(refused.code, 2)
    assert.match(refused.err, message)
  }
  assert.deepEqual(readdirSync(join(folder.path, 'linked')).sort(), ['keep', 'tools.test.mjs'])
})
