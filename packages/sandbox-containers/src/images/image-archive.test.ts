import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { type ImageArchive, imageArchive } from './image-archive.ts'

const { signal } = new AbortController()
const labels = { 'dev.gantry.programs': '/usr/bin/bash', 'dev.gantry.node': 'false' }
let work = ''
beforeEach(() => {
  work = mkdtempSync(join(tmpdir(), 'gantry-archive-'))
})
afterEach(() => rmSync(work, { recursive: true, force: true }))

/** A small root file system, made at its own time and with its own umask. */
function rootFileSystem(name: string, modes: { readonly file: number; readonly folder: number }): string {
  const folder = join(work, name)
  mkdirSync(join(folder, 'etc'), { recursive: true })
  writeFileSync(join(folder, 'etc/passwd'), 'root:x:0:0:root:/:/bin/false\n')
  writeFileSync(join(folder, 'etc/large'), Buffer.alloc(300_001, 'x'))
  symlinkSync('etc', join(folder, 'link'))
  chmodSync(join(folder, 'etc/passwd'), modes.file)
  chmodSync(join(folder, 'etc'), modes.folder)
  utimesSync(join(folder, 'etc/passwd'), modes.file, modes.file)
  return folder
}

async function bytesOf(archive: ImageArchive): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of archive.open(signal) as AsyncIterable<Buffer>) pieces.push(piece)
  return Buffer.concat(pieces)
}

function archiveOf(folder: string, names: readonly string[] = ['gantry/sandbox:one']): Promise<ImageArchive> {
  return imageArchive({ folder, names, labels, signal })
}

test('the same files have the same digests, whenever and with whichever umask they were made', async () => {
  const one = await archiveOf(rootFileSystem('one', { file: 0o644, folder: 0o755 }))
  const other = await archiveOf(rootFileSystem('other', { file: 0o600, folder: 0o2700 }), ['gantry/sandbox:other'])
  assert.match(one.digest, /^sha256:[0-9a-f]{64}$/)
  assert.deepEqual(
    [one.digest, one.manifest.digest, one.layer.digest],
    [other.digest, other.manifest.digest, other.layer.digest],
  )
})

test('another label gives another image of the same layer', async () => {
  const folder = rootFileSystem('one', { file: 0o644, folder: 0o755 })
  const one = await archiveOf(folder)
  const other = await imageArchive({ folder, names: [], labels: { ...labels, more: 'x' }, signal })
  assert.notEqual(one.digest, other.digest)
  assert.equal(one.layer.digest, other.layer.digest)
})

test('the archive is a tar whose blobs have the digests in their names, and which both manifests name', async () => {
  const archive = await archiveOf(rootFileSystem('one', { file: 0o644, folder: 0o755 }), [
    'gantry/sandbox:one',
    'x/y:z',
  ])
  const bytes = await bytesOf(archive)
  assert.equal(bytes.length, archive.bytes)
  writeFileSync(join(work, 'image.tar'), bytes)
  const out = join(work, 'out')
  mkdirSync(out)
  execFileSync('tar', ['-x', '-f', join(work, 'image.tar'), '-C', out])
  const blob = (digest: string): Buffer => readFileSync(join(out, 'blobs', digest.replace(':', '/')))
  for (const digest of [archive.digest, archive.manifest.digest, archive.layer.digest]) {
    assert.equal(`sha256:${createHash('sha256').update(blob(digest)).digest('hex')}`, digest)
  }
  const [docker] = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))
  assert.deepEqual(docker, {
    Config: `blobs/sha256/${archive.digest.slice(7)}`,
    RepoTags: ['gantry/sandbox:one', 'x/y:z'],
    Layers: [`blobs/sha256/${archive.layer.digest.slice(7)}`],
  })
  const { manifests } = JSON.parse(readFileSync(join(out, 'index.json'), 'utf8'))
  assert.deepEqual(
    manifests.map((one: { digest: string; annotations: object }) => [one.digest, Object.values(one.annotations)[0]]),
    [
      [archive.manifest.digest, 'docker.io/gantry/sandbox:one'],
      [archive.manifest.digest, 'docker.io/x/y:z'],
    ],
  )
  const config = JSON.parse(blob(archive.digest).toString())
  assert.deepEqual(config.config.Labels, labels)
  assert.deepEqual(config.rootfs.diff_ids, [archive.layer.digest])
  const manifest = JSON.parse(blob(archive.manifest.digest).toString())
  assert.equal(manifest.config.digest, archive.digest)
  assert.deepEqual(
    manifest.layers.map(({ digest, size }: { digest: string; size: number }) => [digest, size]),
    [[archive.layer.digest, blob(archive.layer.digest).length]],
  )
  const layer = execFileSync('tar', ['-t', '-v', '--numeric-owner'], { input: blob(archive.layer.digest) }).toString()
  assert.match(layer, /^-rw-r--r-- 0\/0 +300001 1970-01-01 \S+ \.\/etc\/large$/m)
})

test('files that change after they were measured break the archive off', async () => {
  const folder = rootFileSystem('one', { file: 0o644, folder: 0o755 })
  const archive = await archiveOf(folder)
  writeFileSync(join(folder, 'more'), Buffer.alloc(50_000))
  await assert.rejects(bytesOf(archive), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
    assert.match(error.message, /changed while they were read\. Run `gantry runtime build` again\.$/)
    return true
  })
})

test('a folder that does not exist is named, and an aborted signal ends with its reason', async () => {
  await assert.rejects(archiveOf(join(work, 'none')), /tar ended with 2: tar: .*none/)
  const reason = new Error('enough')
  const folder = rootFileSystem('one', { file: 0o644, folder: 0o755 })
  const options = { folder, names: [], labels, signal: AbortSignal.abort(reason) }
  await assert.rejects(imageArchive(options), (error) => error === reason)
})
