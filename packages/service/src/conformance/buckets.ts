import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Buckets, Draw, Drawn } from '../admission/buckets/bucket.ts'

/** Buckets to test. */
export interface BucketsFixture {
  readonly buckets: Buckets
  /** The same buckets, as seen by another process. */
  readonly other: Buckets
  /** Advances the time of one bucket. */
  pass(key: string, ms: number): Promise<void>
  /** A name that no other test uses. */
  key(): string
}

/** A refill rate low enough that no token arrives during a test. */
const slow = 1 / (100 * 86_400_000)

type Cases = { readonly [sentence: string]: (fixture: BucketsFixture) => Promise<void> }

async function drawOne(buckets: Buckets, draw: Draw): Promise<Drawn> {
  const [drawn] = await buckets.draw([draw])
  assert.ok(drawn !== undefined)
  return drawn
}

const cases: Cases = {
  async 'a new bucket is full, and a draw takes at most `most` of the tokens left'({ buckets, other, key }) {
    const bucket = { key: key(), capacity: 10, perMs: slow, least: 1, most: 4 }
    assert.deepEqual(await drawOne(buckets, bucket), { tokens: 4, waitMs: 0 })
    assert.deepEqual(await drawOne(other, bucket), { tokens: 4, waitMs: 0 })
    assert.deepEqual(await drawOne(buckets, bucket), { tokens: 2, waitMs: 0 })
    assert.equal((await drawOne(other, bucket)).tokens, 0)
  },

  async 'a draw below `least` takes no token and returns the time until there are enough'(fixture) {
    const { buckets, key, pass } = fixture
    const bucket = { key: key(), capacity: 10, perMs: 0.001, least: 7, most: 7 }
    assert.equal((await drawOne(buckets, bucket)).tokens, 7)
    const { tokens, waitMs } = await drawOne(buckets, bucket)
    assert.equal(tokens, 0)
    assert.ok(waitMs > 3_000 && waitMs <= 4_000, `${waitMs} ms for four tokens at one a second`)
    await pass(bucket.key, 4_000)
    assert.equal((await drawOne(buckets, bucket)).tokens, 7)
  },

  async 'a bucket refills at its rate, up to its capacity'({ buckets, key, pass }) {
    const bucket = { key: key(), capacity: 5, perMs: 0.0001, least: 1, most: 100 }
    assert.equal((await drawOne(buckets, bucket)).tokens, 5)
    await pass(bucket.key, 20_500)
    assert.equal((await drawOne(buckets, bucket)).tokens, 2)
    await pass(bucket.key, 1_000_000)
    assert.equal((await drawOne(buckets, bucket)).tokens, 5)
  },

  async 'a clock that goes backwards adds no tokens'({ buckets, key, pass }) {
    const bucket = { key: key(), capacity: 5, perMs: 0.0001, least: 1, most: 100 }
    await drawOne(buckets, bucket)
    await pass(bucket.key, -1_000_000)
    assert.equal((await drawOne(buckets, bucket)).tokens, 0)
    assert.equal((await drawOne(buckets, bucket)).tokens, 0)
  },

  async 'one call draws from several buckets and answers in their order'({ buckets, key }) {
    const bucket = (capacity: number, least: number) => ({ key: key(), capacity, perMs: slow, least, most: 9 })
    const draws = [bucket(3, 1), bucket(20, 1), bucket(2, 3), bucket(5, 5)]
    assert.deepEqual(
      (await buckets.draw(draws)).map(({ tokens }) => tokens),
      [3, 9, 0, 5],
    )
    assert.deepEqual(await buckets.draw([]), [])
  },

  async 'a bucket whose capacity is reduced has at most the new capacity'({ buckets, key }) {
    const bucket = { key: key(), capacity: 100, perMs: slow, least: 1, most: 1 }
    await drawOne(buckets, bucket)
    assert.equal((await drawOne(buckets, { ...bucket, capacity: 10, most: 50 })).tokens, 10)
  },

  async 'tokens that are returned can be drawn again by any process, and never exceed the capacity'(fixture) {
    const { buckets, other, key, pass } = fixture
    const bucket = { key: key(), capacity: 10, perMs: slow }
    await drawOne(buckets, { ...bucket, least: 1, most: 8 })
    await buckets.give([{ ...bucket, tokens: 5 }])
    assert.equal((await drawOne(other, { ...bucket, least: 1, most: 100 })).tokens, 7)
    await buckets.give([{ ...bucket, tokens: 25 }])
    assert.equal((await drawOne(other, { ...bucket, least: 1, most: 100 })).tokens, 10)
    const untouched = { ...bucket, key: key() }
    await other.give([
      { ...untouched, tokens: 5 },
      { ...bucket, tokens: 3 },
    ])
    assert.equal((await drawOne(buckets, { ...untouched, least: 1, most: 100 })).tokens, 10)
    assert.equal((await drawOne(buckets, { ...bucket, least: 1, most: 100 })).tokens, 3)
    await pass(bucket.key, 1)
    await buckets.tidy()
    assert.equal((await drawOne(buckets, { ...bucket, least: 1, most: 100 })).tokens, 0)
    await buckets.give([])
  },

  async 'keys may contain any characters'({ buckets, key }) {
    const tail = key()
    const names = [`${tail} a b\r\nSET x 1`, `${tail} '; drop table buckets; --`, `${tail} }{*\u{1f600}`]
    const drawn = await buckets.draw(names.map((name) => ({ key: name, capacity: 2, perMs: slow, least: 1, most: 9 })))
    assert.deepEqual(
      drawn.map(({ tokens }) => tokens),
      [2, 2, 2],
    )
  },

  async 'concurrent draws take exactly the tokens that are there'({ buckets, other, key }) {
    const [a, b] = [key(), key()]
    const of = (name: string, most: number) => ({ key: name, capacity: 100, perMs: slow, least: 1, most })
    const all = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        (n % 2 === 0 ? buckets : other).draw(n % 3 === 0 ? [of(a, 3), of(b, 7)] : [of(b, 2), of(a, 5)]),
      ),
    )
    const sum = all.flat().reduce((total, { tokens }) => total + tokens, 0)
    assert.equal(sum, 200)
  },

  async 'tidy() does not change what a full or an empty bucket gives'({ buckets, key, pass }) {
    const [full, empty] = [key(), key()]
    await drawOne(buckets, { key: full, capacity: 5, perMs: 1, least: 1, most: 5 })
    await drawOne(buckets, { key: empty, capacity: 5, perMs: slow, least: 1, most: 5 })
    await pass(full, 1_000_000)
    await buckets.tidy()
    assert.equal((await drawOne(buckets, { key: full, capacity: 5, perMs: 1, least: 1, most: 9 })).tokens, 5)
    assert.equal((await drawOne(buckets, { key: empty, capacity: 5, perMs: slow, least: 1, most: 9 })).tokens, 0)
  },
}

/** The contract of Buckets. */
export function testBuckets(name: string, open: (t: TestContext) => Promise<BucketsFixture>): void {
  test(`${name} as buckets`, async (t) => {
    const fixture = await open(t)
    for (const [sentence, body] of Object.entries(cases)) await t.test(sentence, () => body(fixture))
  })
}
