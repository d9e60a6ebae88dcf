import assert from 'node:assert/strict'
import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'
import { saveFiles, withFiles } from './files.ts'

async function* artifact(id: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`content of ${id}`)
}
const how = { force: false, read: artifact }

test('--file and --code become the files and the program of a call', async () => {
  using folder = folderWith({ 'in.csv': 'a,b\n', 'job.py': 'print(1)', 'job.sh': 'ls' })
  const io = keptIo({ folder: folder.path })
  const options = { file: ['in.csv', 'data/x.csv=in.csv', 'old.csv=art_1'], code: '@job.py' }
  const base64 = Buffer.from('a,b\n').toString('base64')
  assert.deepEqual(await withFiles('code:run', { profile: 'dev' }, options, io), {
    profile: 'dev',
    language: 'python',
    code: 'print(1)',
    files: { 'in.csv': { base64 }, 'data/x.csv': { base64 }, 'old.csv': { artifact: 'art_1' } },
  })
  assert.deepEqual(await withFiles('shell:run', {}, { code: '@job.sh' }, io), { script: 'ls' })
  assert.deepEqual(await withFiles('code:run', { language: 'python' }, { code: '1' }, io), {
    language: 'python',
    code: '1',
  })
  await assert.rejects(withFiles('code:run', {}, { code: 'print(1)' }, io), /The language of the code is not known/)
  await assert.rejects(withFiles('code:run', {}, { file: ['absent'] }, io), /The file absent for --file cannot be read/)
})

test('files of an output are written below the folder, and an existing one is replaced only when asked', async () => {
  using folder = folderWith({})
  const out = join(folder.path, 'out')
  const output: Json = { files: { 'a/b.txt': 'text', 'c.bin': { base64: 'AAEC' }, 'd.txt': { artifact: 'art_1' } } }
  assert.equal((await saveFiles(output, out, how)).saved.length, 3)
  assert.equal(readFileSync(join(out, 'a/b.txt'), 'utf8'), 'text')
  assert.deepEqual([...readFileSync(join(out, 'c.bin'))], [0, 1, 2])
  assert.equal(readFileSync(join(out, 'd.txt'), 'utf8'), 'content of art_1')
  await assert.rejects(saveFiles({ files: { 'a/b.txt': 'new' } }, out, how), /b\.txt exists; --force replaces it/)
  await saveFiles({ files: { 'a/b.txt': 'new' } }, out, { ...how, force: true })
  assert.equal(readFileSync(join(out, 'a/b.txt'), 'utf8'), 'new')
})

test('no path of a program writes outside of the folder, also through a link', async () => {
  using folder = folderWith({ 'precious.txt': 'mine' })
  const out = join(folder.path, 'out')
  for (const path of ['../precious.txt', 'a/../../precious.txt', '..', '.', '']) {
    await assert.rejects(
      saveFiles({ files: { [path]: 'x' } }, out, { ...how, force: true }),
      /outside of the folder/,
      path,
    )
  }
  symlinkSync(folder.path, join(out, 'up'))
  symlinkSync(join(folder.path, 'precious.txt'), join(out, 'link.txt'))
  const forced = { ...how, force: true }
  await assert.rejects(saveFiles({ files: { 'up/precious.txt': 'x' } }, out, forced), /outside of the folder/)
  await assert.rejects(saveFiles({ files: { 'up/new/x.txt': 'x' } }, out, forced), /outside of the folder/)
  assert.equal(existsSync(join(folder.path, 'new')), false)
  await assert.rejects(saveFiles({ files: { 'link.txt': 'x' } }, out, forced), /cannot be written/)
  assert.equal(readFileSync(join(folder.path, 'precious.txt'), 'utf8'), 'mine')
})

test('a file that programs of the machine execute or obey is written only with --force', async () => {
  using folder = folderWith({})
  const paths = [
    'gantry.config.mjs',
    '.git/hooks/post-commit',
    'a/.npmrc',
    'node_modules/zod/index.js',
    'Node_Modules/x',
  ]
  const output: Json = { files: Object.fromEntries([...paths, 'plot.txt'].map((path) => [path, 'x'])) }
  const { saved, withheld } = await saveFiles(output, folder.path, how)
  assert.deepEqual([saved.length, withheld], [1, paths])
  for (const path of paths) assert.equal(existsSync(join(folder.path, path)), false, path)
  assert.deepEqual((await saveFiles(output, folder.path, { ...how, force: true })).withheld, [])
})

const tool = `import { defineTool } from '@gantry/core'
const png = Buffer.from('89504e470d0a1a0a', 'hex').toString('base64')
const run = () => ({ stdout: 'done', files: { 'plot.png': { base64: png }, 'n.txt': '5' } })
export default { tools: [defineTool({ namespace: 'my', name: 'plot', description: 'Plots.', inputSchema: { type: 'object' }, run })] }`

test('run shows a picture by type and size, --json shows it whole, and --out keeps it', async () => {
  using folder = folderWith({ 'gantry.config.mjs': tool })
  const run = async (...more: readonly string[]) => {
    const io = keptIo({ folder: folder.path })
    return { code: await runCommandLine(['run', 'my:plot', ...more], io), ...io.printed }
  }
  const shown = await run()
  assert.match(shown.out, /"plot\.png": "\[image\/png, 8 B\]"/)
  assert.match((await run('--json')).out, /"base64":"iVBORw0KGgo="/)
  const kept = await run('--out', 'out')
  assert.deepEqual([kept.code, existsSync(join(folder.path, 'out/plot.png'))], [0, true])
  const again = await run('--out', 'out')
  assert.equal(again.code, 2)
  assert.match(again.out, /"stdout": "done"/, 'the result is printed before its files are written')
})
