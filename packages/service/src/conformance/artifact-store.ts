import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import type { ArtifactStore } from '../storage/artifacts/artifact-store.ts'

/** A store to test, and access to its files behind its back. */
export interface ArtifactStoreFixture {
  readonly store: ArtifactStore
  /** Corrupts a byte of the stored content. */
  spoil(digest: string): Promise<void>
  /** The number of files in the store, partial ones included. */
  count(): Promise<number>
}

const { signal } = new AbortController()
const options = { maxBytes: 1_048_576, signal }

/** The contract of ArtifactStore. `create` makes an empty store that is removed with the test. */
export function testArtifactStore(name: string, create: (t: TestContext) => Promise<ArtifactStoreFixture>): void {
  const whole = async (store: ArtifactStore, digest: string): Promise<Buffer> =>
    buffer(await store.read(digest, undefined, signal))

  test(`${name}: read() returns the content that put() stored under its SHA-256 digest`, async (t) => {
    const { store } = await create(t)
    for (const bytes of [0, 1, 65_535, 65_536, 65_537, 300_000]) {
      const content = randomBytes(bytes)
      const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
      assert.deepEqual(await store.put(content, options), { digest, bytes })
      assert.deepEqual(await whole(store, digest), content)
      assert.equal(await store.has(digest, signal), true)
    }
  })

  test(`${name}: a stream and a buffer of the same content have the same digest`, async (t) => {
    const { store } = await create(t)
    const content = randomBytes(200_000)
    const put = await store.put(piecesOf(content, 7_001), options)
    assert.deepEqual(put, await store.put(content, options))
    assert.deepEqual(await whole(store, put.digest), content)
  })

  test(`${name}: concurrent puts of the same content store one file`, async (t) => {
    const { store, count } = await create(t)
    const content = randomBytes(100_000)
    const puts = await Promise.all(Array.from({ length: 8 }, () => store.put(piecesOf(content, 10_000), options)))
    assert.equal(new Set(puts.map(({ digest }) => digest)).size, 1)
    assert.equal(await count(), 1)
  })

  test(`${name}: a ranged read returns those bytes, up to the end of the content`, async (t) => {
    const { store } = await create(t)
    const content = randomBytes(150_000)
    const { digest } = await store.put(content, options)
    const ranges = [
      [0, 0],
      [0, 1],
      [70_000, 140_000],
      [149_999, 150_000],
      [149_000, 999_999],
      [150_000, 150_001],
      [999_999, 9_999_999],
    ] as const
    for (const [start, end] of ranges) {
      const part = await buffer(await store.read(digest, { start, end }, signal))
      assert.deepEqual(part, content.subarray(start, end), `${start}–${end}`)
    }
  })

  test(`${name}: content over maxBytes is refused while it is streamed, and leaves no file`, async (t) => {
    const { store, count } = await create(t)
    const asked = { pieces: 0, ended: false }
    const endless = async function* () {
      try {
        for (;;) {
          asked.pieces += 1
          yield randomBytes(1_000)
        }
      } finally {
        asked.ended = true
      }
    }
    await assert.rejects(store.put(endless(), { maxBytes: 10_000, signal }), { code: 'RESULT_TOO_LARGE' })
    assert.ok(asked.pieces < 20, `${asked.pieces} pieces were asked for`)
    assert.equal(asked.ended, true)
    await assert.rejects(store.put(randomBytes(10_001), { maxBytes: 10_000, signal }), { code: 'RESULT_TOO_LARGE' })
    assert.equal((await store.put(randomBytes(10_000), { maxBytes: 10_000, signal })).bytes, 10_000)
    assert.equal(await count(), 1)
  })

  test(`${name}: a put whose source fails rejects with the error of the source, and leaves no file`, async (t) => {
    const { store, count } = await create(t)
    const broken = async function* () {
      yield randomBytes(1_000)
      throw new Error('the source broke')
    }
    await assert.rejects(store.put(broken(), options), /the source broke/)
    assert.equal(await count(), 0)
  })

  test(`${name}: an aborted signal ends a put, also one whose source hangs, and leaves no file`, async (t) => {
    const { store, count } = await create(t)
    const controller = new AbortController()
    const hanging = async function* () {
      yield randomBytes(1_000)
      setImmediate(() => controller.abort(new Error('enough')))
      await new Promise(() => undefined)
    }
    await assert.rejects(store.put(hanging(), { maxBytes: 10_000, signal: controller.signal }), /enough/)
    await assert.rejects(store.put(randomBytes(10), { maxBytes: 10_000, signal: controller.signal }), /enough/)
    assert.equal(await count(), 0)
  })

  test(`${name}: an aborted signal ends a read`, async (t) => {
    const { store } = await create(t)
    const { digest } = await store.put(randomBytes(1_000_000), options)
    const controller = new AbortController()
    const stream = await store.read(digest, undefined, controller.signal)
    await assert.rejects(async () => {
      for await (const _ of stream) controller.abort(new Error('enough'))
    }, /enough/)
    await assert.rejects(store.read(digest, undefined, controller.signal), /enough/)
  })

  test(`${name}: an unread stream can be destroyed or aborted`, async (t) => {
    const { store } = await create(t)
    const { digest } = await store.put(randomBytes(1_000), options)
    const controller = new AbortController()
    const destroyed = await store.read(digest, undefined, signal)
    const aborted = await store.read(digest, undefined, controller.signal)
    const closed = Promise.all(
      [destroyed, aborted].map((stream) => new Promise((resolve) => stream.on('close', resolve))),
    )
    destroyed.destroy()
    controller.abort(new Error('enough'))
    await closed
    assert.deepEqual([destroyed.errored, aborted.errored], [null, controller.signal.reason])
  })

  test(`${name}: reading corrupted content is STORE_UNAVAILABLE before the stream is complete`, async (t) => {
    const { store, spoil } = await create(t)
    for (const bytes of [1_000, 200_000]) {
      const { digest } = await store.put(randomBytes(bytes), options)
      await spoil(digest)
      const seen: Uint8Array[] = []
      await assert.rejects(
        async () => {
          for await (const piece of await store.read(digest, undefined, signal)) seen.push(piece)
        },
        { code: 'STORE_UNAVAILABLE' },
      )
      assert.ok(Buffer.concat(seen).length < bytes)
    }
  })

  test(`${name}: a put repairs corrupted content`, async (t) => {
    const { store, spoil } = await create(t)
    const content = randomBytes(1_000)
    const { digest } = await store.put(content, options)
    await spoil(digest)
    await store.put(content, options)
    assert.deepEqual(await whole(store, digest), content)
  })

  test(`${name}: an unknown or invalid digest is NOT_FOUND`, async (t) => {
    const { store } = await create(t)
    const { digest } = await store.put(Buffer.from('here'), options)
    const absent = `sha256:${'0'.repeat(64)}`
    const names = [absent, '', 'sha256:', digest.toUpperCase(), `${digest}\n`, `${digest}/..`, '../../etc/passwd']
    for (const other of [...names, `sha256:${'../'.repeat(21)}a`, `sha256:${'0'.repeat(63)}\0`, 'toString']) {
      await assert.rejects(store.read(other, undefined, signal), { code: 'NOT_FOUND' }, JSON.stringify(other))
      assert.equal(await store.has(other, signal), false)
      await store.remove(other)
    }
    assert.deepEqual(await whole(store, digest), Buffer.from('here'))
  })

  test(`${name}: a removed file is NOT_FOUND, and can be put again`, async (t) => {
    const { store, count } = await create(t)
    const content = Buffer.from('once more')
    const { digest } = await store.put(content, options)
    await store.remove(digest)
    await store.remove(digest)
    assert.equal(await count(), 0)
    await assert.rejects(store.read(digest, undefined, signal), { code: 'NOT_FOUND' })
    await store.put(content, options)
    assert.deepEqual(await whole(store, digest), content)
  })
}

async function* piecesOf(content: Uint8Array, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += bytes) yield content.subarray(at, at + bytes)
}
