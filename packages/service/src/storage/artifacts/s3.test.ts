import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { globSync } from 'node:fs'
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { testArtifactStore } from '../../conformance/artifact-store.ts'
import type { ArtifactStore } from './artifact-store.ts'
import { optionsFor, ownPlace, passOn, piecesOf, played } from './s3/server.fixture.ts'
import { s3Artifacts } from './s3.ts'

const { signal } = new AbortController()
const options = { maxBytes: 100_000_000, signal }

const whole = async (store: ArtifactStore, digest: string): Promise<Buffer> =>
  buffer(await store.read(digest, undefined, signal))

const listed = async (store: ArtifactStore, olderThanMs: number): Promise<string[]> => {
  const found: string[] = []
  for await (const digest of store.list?.(olderThanMs) ?? []) found.push(digest)
  return found.sort()
}

testArtifactStore('s3', async (t) => {
  const place = await ownPlace(t)
  return {
    store: s3Artifacts(place.options),
    count: place.count,
    async spoil(digest) {
      const object = { Bucket: place.server.bucket, Key: place.keyOf(digest) }
      const { Body } = await place.raw.getObject(object)
      const content = Buffer.from((await Body?.transformToByteArray()) ?? [])
      content[0] = (content[0] ?? 0) ^ 1
      await place.raw.putObject({ ...object, Body: content })
    },
  }
})

test('a large file is uploaded in parts as one object, and an intact one is not uploaded again', async (t) => {
  const place = await ownPlace(t)
  const sent: string[] = []
  const endpoint = await played(t, (incoming, outgoing) => {
    sent.push(`${incoming.method} ${incoming.url?.replace(/.*\?/, '')}`)
    passOn(place.server.port, incoming, outgoing)
  })
  const store = s3Artifacts({ ...place.options, endpoint })
  const content = randomBytes(25_000_000)
  const put = await store.put(piecesOf(content, 1_000_003), options)
  const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
  assert.deepEqual(put, { digest, bytes: content.length })
  const parts = (): number => sent.filter((line) => /^PUT .*partNumber/.test(line)).length
  assert.equal(parts(), 3)
  assert.deepEqual(await whole(store, digest), content)
  assert.deepEqual(
    await buffer(await store.read(digest, { start: 8_388_600, end: 16_777_300 }, signal)),
    content.subarray(8_388_600, 16_777_300),
  )
  assert.deepEqual(await store.put(content, options), put)
  assert.equal(parts(), 3)
  const object = { Bucket: place.server.bucket, Key: place.keyOf(digest) }
  await place.raw.putObject({ ...object, Body: Buffer.alloc(content.length) })
  await store.put(content, options)
  assert.equal(parts(), 6)
  assert.deepEqual(await whole(store, digest), content)
  assert.equal(await place.count(), 1)
})

test('a put that is aborted during a multipart upload leaves no object, no upload and no temporary file', async (t) => {
  const place = await ownPlace(t)
  const controller = new AbortController()
  let parts = 0
  const seen = { uploads: 0 }
  const endpoint = await played(t, (incoming, outgoing) => {
    if (incoming.url?.includes('partNumber')) parts += 1
    if (parts < 2 || incoming.method === 'DELETE') return passOn(place.server.port, incoming, outgoing)
    place.count().then((count) => {
      seen.uploads = count
      controller.abort(new Error('enough'))
    })
  })
  const store = s3Artifacts({ ...place.options, endpoint })
  const before = (await readdir(tmpdir())).filter((name) => name.startsWith('gantry-upload-'))
  const put = store.put(piecesOf(randomBytes(20_000_000), 1_000_000), { ...options, signal: controller.signal })
  await assert.rejects(put, /enough/)
  assert.equal(seen.uploads, 1, 'an upload was in progress')
  assert.equal(await place.count(), 0)
  assert.deepEqual(
    (await readdir(tmpdir())).filter((name) => name.startsWith('gantry-upload-')),
    before,
  )
})

test('the next large put aborts multipart uploads older than a day', async (t) => {
  const place = await ownPlace(t)
  const Bucket = place.server.bucket
  const start = async (name: string): Promise<string> =>
    (await place.raw.createMultipartUpload({ Bucket, Key: `${place.options.prefix}/${name}` })).UploadId ?? ''
  const [old, young] = [await start('old'), await start('young')]
  const [folder = ''] = globSync(join(place.server.folder, 'data', Bucket, '.sgwtmp/multipart/*', old))
  await utimes(folder, 1, Date.now() / 1_000 - 90_000)
  const uploads = async (): Promise<(string | undefined)[]> => {
    const listed = await place.raw.listMultipartUploads({ Bucket, Prefix: place.options.prefix })
    return (listed.Uploads ?? []).map(({ UploadId }) => UploadId)
  }
  assert.deepEqual((await uploads()).sort(), [old, young].sort())
  await s3Artifacts(place.options).put(randomBytes(9_000_000), options)
  assert.deepEqual(await uploads(), [young])
})

test('content that is altered in transit is refused by the server and leaves no object', async (t) => {
  const place = await ownPlace(t)
  const spoil = { now: true }
  const endpoint = await played(t, async (incoming, outgoing) => {
    const body = await buffer(incoming)
    if (spoil.now && body.length > 1_000) body[500] = (body[500] ?? 0) ^ 1
    passOn(place.server.port, incoming, outgoing, body)
  })
  const store = s3Artifacts({ ...place.options, endpoint })
  for (const bytes of [10_000, 10_000_000]) {
    const content = randomBytes(bytes)
    spoil.now = true
    await assert.rejects(store.put(content, options), { code: 'STORE_UNAVAILABLE', retryable: true })
    assert.equal(await place.count(), 0)
    spoil.now = false
    const { digest } = await store.put(content, options)
    await store.remove(digest)
  }
})

test('list() returns digests by age over all pages, and ignores foreign objects', async (t) => {
  const { options: where, files } = await ownPlace(t)
  const store = s3Artifacts(where)
  assert.deepEqual(await listed(store, -1_000), [])
  const digests = Array.from({ length: 1_100 }, () => randomBytes(32).toString('hex')).sort()
  for (const digits of digests) {
    await mkdir(join(files, digits.slice(0, 2)), { recursive: true })
    await writeFile(join(files, digits.slice(0, 2), digits), '')
  }
  await writeFile(join(files, 'notes'), '')
  await writeFile(join(files, (digests[0] ?? '').slice(0, 2), 'f'.repeat(64)), '')
  const [old = ''] = digests
  await utimes(join(files, old.slice(0, 2), old), 1, Date.now() / 1_000 - 7_200)
  assert.deepEqual(await listed(store, 3_600_000), [`sha256:${old}`])
  assert.deepEqual(
    await listed(store, -3_600_000),
    digests.map((digits) => `sha256:${digits}`),
  )
})

test('an invalid digest causes no request to S3', async (t) => {
  const asked: string[] = []
  const endpoint = await played(t, (incoming, outgoing) => {
    asked.push(incoming.url ?? '')
    outgoing.writeHead(404).end()
  })
  const store = s3Artifacts(optionsFor(endpoint, 5_000))
  const digits = 'a'.repeat(64)
  const hostile = ['', '../x', 'sha256:', `sha256:${digits}a`, `sha256:${digits.slice(1)}`, `sha256:${'ａ'.repeat(64)}`]
  for (const digest of [...hostile, `SHA256:${digits}`, `sha256:${digits}\n`, `sha256:${digits.slice(2)}..`, digits]) {
    await assert.rejects(store.read(digest, undefined, signal), { code: 'NOT_FOUND' }, digest)
    assert.equal(await store.has(digest, signal), false)
    await store.remove(digest)
    const download = { name: 'x', mimeType: 'text/plain', expiresMs: 1_000, signal }
    await assert.rejects(async () => store.presign?.(digest, download), { code: 'NOT_FOUND' })
  }
  assert.deepEqual(asked, [])
  assert.equal(await store.has(`sha256:${digits}`, signal), false)
  assert.deepEqual(asked, [`/bucket/artifacts/aa/${digits}`])
})
