import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import type { ProxiedLink } from '../../../../../scripts/engines/toxiproxy.ts'
import { testArtifactStore } from '../../conformance/artifact-store.ts'
import type { ArtifactStore } from './artifact-store.ts'
import { type SpooledArtifacts, spooledArtifacts } from './fallback.ts'
import { filesIn, newFolder } from './files.fixture.ts'
import { folderArtifacts } from './folder.ts'
import { type OwnPlace, ownPlace, piecesOf, toxiproxy } from './s3/server.fixture.ts'
import { s3Artifacts } from './s3.ts'

const { signal } = new AbortController()
const options = { maxBytes: 50_000_000, signal }
const limits = { fileBytes: 1_000_000, files: 5 }

interface Linked {
  readonly place: OwnPlace
  readonly link: ProxiedLink
  readonly s3: ArtifactStore
  readonly folder: string
  readonly store: SpooledArtifacts
}

/** An S3 store with its spool, behind a proxy that can fail. */
async function linked(t: TestContext, timeoutMs = 1_000): Promise<Linked> {
  const [place, proxies] = [await ownPlace(t), await toxiproxy(t)]
  const link = await proxies.proxy(`127.0.0.1:${place.server.port}`)
  t.after(() => link.close())
  const s3 = s3Artifacts({ ...place.options, endpoint: `http://127.0.0.1:${link.port}`, timeoutMs })
  const folder = await newFolder(t)
  return { place, link, s3, folder, store: spooledArtifacts(s3, folder, limits) }
}

const whole = async (store: ArtifactStore, digest: string): Promise<Buffer> =>
  buffer(await store.read(digest, undefined, signal))

testArtifactStore('spooled', async (t) => {
  const [far, near] = [await newFolder(t), await newFolder(t)]
  return {
    store: spooledArtifacts(folderArtifacts({ folder: far }), near, limits),
    count: async () => (await filesIn(far)).length + (await filesIn(near)).length,
    async spoil(digest) {
      const [path = ''] = (await filesIn(far)).filter((name) => name.endsWith(digest.slice(7)))
      await writeFile(path, 'other bytes')
    },
  }
})

test('a put over a cut, refused or reset connection is STORE_UNAVAILABLE, leaves no object, and works after recovery', async (t) => {
  const { place, link, s3 } = await linked(t)
  const content = randomBytes(100_000)
  const { digest } = await s3.put(content, options)
  const ills = [() => link.cut(), () => link.refuse(), () => link.reset()]
  for (const fallIll of ills) {
    await fallIll()
    await assert.rejects(s3.put(randomBytes(1_000), options), { code: 'STORE_UNAVAILABLE', retryable: true })
    await assert.rejects(s3.has(digest, signal), { code: 'STORE_UNAVAILABLE' })
    await assert.rejects(whole(s3, digest), { code: 'STORE_UNAVAILABLE' })
    await link.heal()
    assert.deepEqual(await whole(s3, digest), content)
  }
  assert.equal(await place.count(), 1)
})

test('a connection that breaks during a large upload leaves no object', async (t) => {
  const { place, link, s3 } = await linked(t, 3_000)
  const content = randomBytes(20_000_000)
  await link.slow(8_000)
  const put = s3.put(piecesOf(content, 1_000_000), options)
  const broken = assert.rejects(put, { code: 'STORE_UNAVAILABLE' })
  while ((await place.count()) === 0) await new Promise(setImmediate)
  await link.refuse()
  await broken
  assert.equal(
    (await place.raw.listObjectsV2({ Bucket: place.server.bucket, Prefix: place.options.prefix })).KeyCount,
    0,
  )
  await link.heal()
  const { digest } = await s3.put(content, options)
  assert.deepEqual(await whole(s3, digest), content)
})

test('put and read are correct over a slow connection with latency', async (t) => {
  const { link, s3 } = await linked(t, 20_000)
  await link.latency(20, 10)
  await link.slow(2_000)
  const content = randomBytes(500_000)
  const { digest } = await s3.put(content, options)
  assert.deepEqual(await whole(s3, digest), content)
})

test('while S3 is unavailable, files are spooled and read locally, and drain() moves them to S3 after recovery', async (t) => {
  const { place, link, s3, folder, store } = await linked(t)
  await link.cut()
  const contents = [randomBytes(10), randomBytes(1_000_000), Buffer.alloc(0)]
  const digests: string[] = []
  for (const content of contents) digests.push((await store.put(piecesOf(content, 65_536), options)).digest)
  assert.equal((await filesIn(folder)).length, 3)
  const download = { name: 'x', mimeType: 'text/plain', expiresMs: 1_000, signal }
  for (const [index, digest] of digests.entries()) {
    assert.deepEqual(await whole(store, digest), contents[index])
    assert.equal(await store.has(digest, signal), true)
    assert.equal(await store.presign?.(digest, download), undefined)
  }
  await assert.rejects(store.drain(signal), { code: 'STORE_UNAVAILABLE' })
  assert.equal((await filesIn(folder)).length, 3)
  await link.heal()
  const later = spooledArtifacts(s3, folder, limits)
  assert.deepEqual(await later.drain(signal), { files: 3, damaged: 0 })
  assert.deepEqual([await filesIn(folder), await place.count()], [[], 3])
  for (const [index, digest] of digests.entries()) {
    assert.deepEqual(await whole(s3, digest), contents[index])
    assert.match((await store.presign?.(digest, download)) ?? '', /^http/)
  }
  assert.deepEqual(await later.drain(signal), { files: 0, damaged: 0 })
})

test('the spool limits number and size of files, and a put beyond that fails with the error of the store', async (t) => {
  const { link, folder, store } = await linked(t)
  await link.refuse()
  const s3Unavailable = { code: 'STORE_UNAVAILABLE', message: /S3 bucket/ }
  await assert.rejects(store.put(randomBytes(1_000_001), options), s3Unavailable)
  await assert.rejects(store.put(piecesOf(randomBytes(1_000_001), 1_000), options), s3Unavailable)
  const puts = await Promise.allSettled(Array.from({ length: 9 }, () => store.put(randomBytes(100), options)))
  const kept = puts.filter(({ status }) => status === 'fulfilled').length
  assert.equal(kept, (await filesIn(folder)).length)
  assert.ok(kept <= 5, `${kept} files were kept`)
  for (let more = kept; more < 5; more += 1) await store.put(randomBytes(100), options)
  await assert.rejects(store.put(randomBytes(100), options), s3Unavailable)
  await link.heal()
  assert.deepEqual(await store.drain(signal), { files: 5, damaged: 0 })
  await link.refuse()
  assert.equal((await store.put(randomBytes(100), options)).bytes, 100)
})

test('drain() leaves a damaged file in the spool and moves the others', async (t) => {
  const { place, link, folder, store } = await linked(t)
  await link.refuse()
  for (const bytes of [10, 20]) await store.put(randomBytes(bytes), options)
  const [first = ''] = await filesIn(folder)
  await writeFile(first, 'other bytes')
  await link.heal()
  assert.deepEqual(await store.drain(signal), { files: 1, damaged: 1 })
  assert.deepEqual([await filesIn(folder), await place.count()], [[first], 1])
})

test('concurrent drains move each file once, and a removed file is not moved', async (t) => {
  const { place, link, folder, store, s3 } = await linked(t)
  await link.refuse()
  const digests: string[] = []
  for (const bytes of [10, 20, 30]) digests.push((await store.put(randomBytes(bytes), options)).digest)
  await link.heal()
  await store.remove(digests[0] ?? '')
  const other = spooledArtifacts(s3, folder, limits)
  await Promise.all([store.drain(signal), other.drain(signal)])
  assert.deepEqual([await filesIn(folder), await place.count()], [[], 2])
})
