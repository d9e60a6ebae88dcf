import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testSecretSource } from '@gantry/conformance/internal/host-ports'
import { fileSecrets } from './file.ts'
import { request, temporaryFolder } from './secrets.fixture.ts'

function folderWith(files: { readonly [name: string]: string | Buffer }): string {
  const folder = temporaryFolder()
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
  return folder
}

testSecretSource('file', () => fileSecrets({ folder: folderWith({ api: 'correct-horse\n' }) }))

test('one trailing newline is not part of the secret, all other whitespace is', async () => {
  const source = fileSecrets({ folder: folderWith({ one: ' a b \n', two: 'x\n\n', windows: 'y\r\n', none: 'z' }) })
  const values = await Promise.all(['one', 'two', 'windows', 'none'].map((name) => source.get(name, request)))
  assert.deepEqual(values, [' a b ', 'x\n', 'y', 'z'])
})

test('a secret is read from its file at each use', async () => {
  const folder = folderWith({ api: 'old value' })
  const source = fileSecrets({ folder })
  assert.equal(await source.get('api', request), 'old value')
  writeFileSync(join(folder, 'api'), 'new value')
  assert.equal(await source.get('api', request), 'new value')
})

test('a Kubernetes secret mount works, also after its update', async () => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o1777)
  for (const [version, value] of [
    ['..2026_1', 'first value'],
    ['..2026_2', 'second value'],
  ] as const) {
    mkdirSync(join(folder, version), { mode: 0o755 })
    writeFileSync(join(folder, version, 'api'), value, { mode: 0o644 })
  }
  symlinkSync('..2026_1', join(folder, '..data'))
  symlinkSync('..data/api', join(folder, 'api'))
  const source = fileSecrets({ folder })
  assert.equal(await source.get('api', request), 'first value')
  symlinkSync('..2026_2', join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  assert.equal(await source.get('api', request), 'second value')
})

test('no secret name resolves outside the folder', async () => {
  const outer = folderWith({ canary: 'canary value' })
  const folder = join(outer, 'secrets')
  mkdirSync(folder, { mode: 0o700 })
  assert.equal(readFileSync(join(folder, '../canary'), 'utf8'), 'canary value')
  const source = fileSecrets({ folder })
  const names = [
    '../canary',
    '..',
    '.',
    '/etc/passwd',
    `${outer}/canary`,
    'a/../../canary',
    'x\0y',
    '..\\canary',
    'é',
    ' ',
  ]
  for (const name of [...names, 'n'.repeat(300)]) assert.equal(await source.get(name, request), undefined, name)
})

test('a symbolic link out of the folder is refused, to a file or through a folder', async () => {
  const outer = folderWith({ canary: 'canary value' })
  const folder = join(outer, 'secrets')
  mkdirSync(folder, { mode: 0o700 })
  symlinkSync('../canary', join(folder, 'direct'))
  symlinkSync('..', join(folder, 'up'))
  symlinkSync('up/canary', join(folder, 'through'))
  const sibling = join(outer, 'secrets-2')
  mkdirSync(sibling)
  writeFileSync(join(sibling, 'canary'), 'canary value')
  symlinkSync('../secrets-2/canary', join(folder, 'sibling'))
  for (const name of ['direct', 'through', 'sibling']) {
    assert.equal(readFileSync(join(folder, name), 'utf8'), 'canary value')
    await assert.rejects(async () => fileSecrets({ folder }).get(name, request), { code: 'SECRET_UNAVAILABLE' }, name)
  }
})

test('a dangling symbolic link is a missing secret, and a link loop is an error', async () => {
  const folder = temporaryFolder()
  symlinkSync('gone', join(folder, 'dangling'))
  symlinkSync('loop', join(folder, 'loop'))
  assert.equal(await fileSecrets({ folder }).get('dangling', request), undefined)
  await assert.rejects(async () => fileSecrets({ folder }).get('loop', request), { code: 'SECRET_UNAVAILABLE' })
})

test('pipes, folders, oversized files and invalid UTF-8 are refused without blocking', async () => {
  const folder = folderWith({ long: 'x'.repeat(65_537), bytes: Buffer.from([0xff, 0xfe, 0x00, 0x80]) })
  execFileSync('mkfifo', ['-m', '600', join(folder, 'pipe')])
  mkdirSync(join(folder, 'folder'), { mode: 0o700 })
  for (const name of ['long', 'bytes', 'pipe', 'folder']) {
    const get = async () => fileSecrets({ folder }).get(name, request)
    await assert.rejects(get, (error: Error) => !error.message.includes('x'.repeat(20)), name)
    await assert.rejects(get, { code: 'SECRET_UNAVAILABLE' }, name)
  }
})

test('a folder, file or linked folder that other users can write is refused', async () => {
  const folder = folderWith({ api: 'correct-horse' })
  const source = fileSecrets({ folder })
  const refused = () => assert.rejects(async () => source.get('api', request), /can be written by others; chmod go-w/)
  for (const mode of [0o777, 0o770, 0o702]) {
    chmodSync(folder, mode)
    await refused()
  }
  chmodSync(folder, 0o1777)
  assert.equal(await source.get('api', request), 'correct-horse')
  chmodSync(join(folder, 'api'), 0o620)
  await refused()
  rmSync(join(folder, 'api'))
  mkdirSync(join(folder, '..open'))
  chmodSync(join(folder, '..open'), 0o777)
  writeFileSync(join(folder, '..open', 'api'), 'correct-horse', { mode: 0o600 })
  symlinkSync('..open/api', join(folder, 'api'))
  await refused()
})

const asRoot = process.getuid?.() === 0 ? {} : { skip: 'only root can give a file away' }
test('in a world-writable sticky folder, a file or link owned by another user is refused', asRoot, async () => {
  const folder = folderWith({ api: 'correct-horse', planted: 'planted value' })
  chmodSync(folder, 0o1777)
  assert.equal(await fileSecrets({ folder }).get('planted', request), 'planted value')
  chownSync(join(folder, 'planted'), 12_345, 12_345)
  symlinkSync('api', join(folder, 'link'))
  lchownSync(join(folder, 'link'), 12_345, 12_345)
  symlinkSync('planted', join(folder, 'own-link'))
  for (const name of ['planted', 'link', 'own-link']) {
    await assert.rejects(async () => fileSecrets({ folder }).get(name, request), /belongs to another user/)
  }
})

test('a missing folder is an error', async () => {
  const folder = join(temporaryFolder(), 'gone')
  await assert.rejects(async () => fileSecrets({ folder }).get('api', request), { code: 'SECRET_UNAVAILABLE' })
})
