import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { open, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { testArtifactStore } from '../../conformance/artifact-store.ts'
import { filesIn, newFolder } from './files.fixture.ts'
import { draftName, folderArtifacts } from './folder.ts'

const { signal } = new AbortController()
const options = { maxBytes: 1_048_576, signal }

function pathOf(folder: string, digest: string): string {
  const digits = digest.slice('sha256:'.length)
  return join(folder, digits.slice(0, 2), digits.slice(2, 4), digits)
}

testArtifactStore('folder', async (t) => {
  const folder = await newFolder(t)
  return {
    store: folderArtifacts({ folder }),
    count: async () => (await filesIn(folder)).length,
    async spoil(digest) {
      const handle = await open(pathOf(folder, digest), 'r+')
      const { buffer: byte } = await handle.read(Buffer.alloc(1), 0, 1, 0)
      await handle.write(Buffer.from([(byte[0] ?? 0) ^ 1]), 0, 1, 0)
      await handle.close()
    },
  }
})

test('files have mode 0600 and folders mode 0700', async (t) => {
  const folder = join(await newFolder(t), 'new/artifacts')
  const { digest } = await folderArtifacts({ folder }).put(Buffer.from('secret enough'), options)
  const path = pathOf(folder, digest)
  assert.equal((await stat(path)).mode & 0o777, 0o600)
  for (const part of [folder, join(folder, 'tmp'), join(path, '..'), join(path, '../..')]) {
    assert.equal((await stat(part)).mode & 0o777, 0o700, part)
  }
})

test('a symlink in place of a file is not followed', async (t) => {
  const folder = await newFolder(t)
  const store = folderArtifacts({ folder })
  const { digest } = await store.put(Buffer.from('mine'), options)
  const elsewhere = join(await newFolder(t), 'elsewhere')
  await writeFile(elsewhere, 'mine')
  await rm(pathOf(folder, digest))
  await symlink(elsewhere, pathOf(folder, digest))
  await assert.rejects(store.read(digest, undefined, signal), { code: 'STORE_UNAVAILABLE' })
})

test('the first put of a store removes temporary files of dead processes and keeps those of running ones', async (t) => {
  const folder = await newFolder(t)
  const tmp = join(folder, 'tmp')
  const put = (): Promise<unknown> => folderArtifacts({ folder }).put(Buffer.from('something'), options)
  await put()
  const own = draftName()
  const ended = spawn(process.execPath, ['-e', ''])
  await once(ended, 'close')
  const ownedBy = (pid: number | undefined): string => own.replace(`-${process.pid}-`, `-${pid}-`)
  const names = {
    live: own,
    otherLive: ownedBy(process.ppid),
    dead: ownedBy(ended.pid),
    earlier: draftName(),
    elsewhere: ownedBy(ended.pid).replace(/^.{8}/, '00000000'),
    elsewhereLong: ownedBy(ended.pid).replace(/^.{8}/, '00000001'),
    foreign: 'notes.txt',
  }
  for (const name of Object.values(names)) await writeFile(join(tmp, name), 'half')
  await utimes(join(tmp, names.earlier), 1, Date.now() / 1_000 - process.uptime() - 60)
  await utimes(join(tmp, names.elsewhereLong), 1, Date.now() / 1_000 - 90_000)
  await put()
  assert.deepEqual((await readdir(tmp)).sort(), [names.live, names.otherLive, names.elsewhere, names.foreign].sort())
})

/** Runs a program against the store in a child process, started by `command`; returns its output. */
async function inProcess(command: readonly string[], program: string): Promise<string> {
  const text = `import { folderArtifacts } from ${JSON.stringify(join(import.meta.dirname, 'folder.ts'))}
    const { signal } = new AbortController()
    ${program}`
  const [file = '', ...args] = [...command, process.execPath, '--input-type=module', '-e', text]
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = once(child, 'close')
  const [out, err] = await Promise.all([buffer(child.stdout), buffer(child.stderr), closed])
  return `${out}${err}`.trim()
}

test('concurrent puts of the same content by several processes leave one complete file', async (t) => {
  const folder = await newFolder(t)
  const program = `
    const store = folderArtifacts({ folder: ${JSON.stringify(folder)} })
    const content = Buffer.alloc(400_000, 'same')
    for (let round = 0; round < 20; round++) await store.put(content, { maxBytes: 1e6, signal })
    console.log('done')`
  assert.deepEqual(await Promise.all([1, 2, 3].map(() => inProcess([], program))), ['done', 'done', 'done'])
  const files = await filesIn(folder)
  assert.equal(files.length, 1)
  assert.equal((await readFile(files[0] ?? '')).length, 400_000)
})

test('a full disk is STORE_UNAVAILABLE, leaves no partial file, and puts work again once there is space', async (t) => {
  const folder = await newFolder(t)
  const program = `
    import { readdirSync } from 'node:fs'
    const store = folderArtifacts({ folder: ${JSON.stringify(folder)} })
    const options = { maxBytes: 1e9, signal }
    const files = () => readdirSync(${JSON.stringify(folder)}, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length
    const { digest } = await store.put(Buffer.alloc(600_000, 'a'), options)
    const failure = await store.put(Buffer.alloc(600_000, 'b'), options).catch((error) => error)
    console.log(failure.code, failure.message.includes('is full'), failure.cause.code, files())
    await store.remove(digest)
    await store.put(Buffer.alloc(600_000, 'b'), options)
    console.log(files())`
  const small = ['bwrap', '--dev-bind', '/', '/', '--size', '1048576', '--tmpfs', folder]
  const said = await inProcess(small, program).catch((error: NodeJS.ErrnoException) => error)
  if (said instanceof Error && said.code === 'ENOENT')
    return t.skip('bubblewrap, which makes the small disk, is missing')
  assert.equal(said, 'STORE_UNAVAILABLE true ENOSPC 1\n1')
})

test('an unwritable folder is STORE_UNAVAILABLE, and the next put tries it again', async (t) => {
  const base = await newFolder(t)
  const folder = join(base, 'file/artifacts')
  await writeFile(join(base, 'file'), '')
  const store = folderArtifacts({ folder })
  await assert.rejects(store.put(randomBytes(10), options), { code: 'STORE_UNAVAILABLE' })
  await rm(join(base, 'file'))
  const { digest } = await store.put(randomBytes(10), options)
  await rm(folder, { recursive: true })
  await assert.rejects(store.put(randomBytes(10), options), { code: 'STORE_UNAVAILABLE' })
  await store.put(randomBytes(10), options)
  await assert.rejects(store.read(digest, undefined, signal), { code: 'NOT_FOUND' })
})

test('list() returns the digests of old files and ignores foreign files in the folder', async (t) => {
  const folder = await newFolder(t)
  const store = folderArtifacts({ folder })
  const list = async (olderThanMs: number): Promise<string[]> => {
    const found: string[] = []
    for await (const digest of store.list?.(olderThanMs) ?? []) found.push(digest)
    return found
  }
  assert.deepEqual(await list(0), [])
  const [old, young] = [await store.put(Buffer.from('old'), options), await store.put(Buffer.from('young'), options)]
  await utimes(pathOf(folder, old.digest), 1, Date.now() / 1_000 - 7_200)
  for (const name of [join(folder, 'notes'), join(pathOf(folder, old.digest), '../notes')]) await writeFile(name, '')
  assert.deepEqual(await list(3_600_000), [old.digest])
  assert.deepEqual((await list(-3_600_000)).sort(), [old.digest, young.digest].sort())
})
