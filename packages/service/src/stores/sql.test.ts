import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { pgliteDatabase, postgresDatabase } from '../../test/databases.fixture.ts'
import { manyCalls, mine, type StoreFixture, someCall, someEnding } from '../conformance/call-store/samples.ts'
import { testCallStore } from '../conformance/call-store.ts'
import type { Database } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { memoryCallStore } from './memory.ts'
import { live, operations } from './operations.fixture.ts'
import { sqlFixture } from './sql.fixture.ts'

type Databases = { readonly database: Database; readonly other: Database }

const engines: { readonly [name: string]: (t: TestContext) => Promise<Databases> } = {
  async PGlite(t) {
    const database = await pgliteDatabase(t)
    return { database, other: database }
  },
  async PostgreSQL(t) {
    const { url, database } = await postgresDatabase(t)
    const other = await openPostgres({ url })
    t.after(() => other.close())
    return { database, other }
  },
}

for (const [engine, open] of Object.entries(engines)) {
  testCallStore(`SQL on ${engine}`, async (t) => {
    const { database, other } = await open(t)
    return () => sqlFixture(database, other)
  })

  test(`${engine}: whatever is done in whatever order, SQL and memory agree`, async (t) => {
    const { database, other } = await open(t)
    const property = fc.asyncProperty(operations, async (steps) => {
      assert.deepEqual(await live(await sqlFixture(database, other), steps), await live(memoryFixture(), steps))
    })
    await fc.assert(property, { numRuns: 30 })
  })

  test(`${engine}: those who listen hear of calls that can be claimed, have ended or are to be cancelled`, async (t) => {
    const { database, other } = await open(t)
    const heard: string[] = []
    for (const channel of ['gantry_ready', 'gantry_done', 'gantry_cancel']) {
      await other.listen(channel, (payload) => heard.push(`${channel} ${payload}`))
    }
    const { store, pass } = await sqlFixture(database, other)
    /** Notifications come in the order of commits, so that after this one all before it are here. */
    const news = async (): Promise<string[]> => {
      await database.query(`select pg_notify('gantry_done', 'all')`)
      while (!heard.includes('gantry_done all')) await new Promise((resolve) => setTimeout(resolve, 1))
      return heard.splice(0).filter((line) => line !== 'gantry_done all')
    }
    await store.submit([someCall('mine')], mine)
    await store.submit([someCall('late', { delayMs: 60_000 })])
    assert.deepEqual(await news(), [])
    await store.submit([someCall('a'), someCall('b')])
    assert.deepEqual(await news(), ['gantry_ready '])
    const claims = await store.claim(10, mine)
    assert.deepEqual(await news(), [])
    await store.cancel('a', 'acme')
    await store.cancel('late', 'acme')
    assert.deepEqual(await news(), ['gantry_cancel a', 'gantry_done late'])
    await store.finish(claims.slice(0, 1).map((claim) => someEnding(claim)))
    assert.deepEqual(await news(), ['gantry_done a'])
    await store.release(claims.slice(1))
    assert.deepEqual(await news(), ['gantry_ready '])
    await pass(11_000)
    await store.reclaim({ max: 10 })
    assert.deepEqual(await news(), ['gantry_ready '])
    await store.submit(manyCalls(2, { slot: { key: 's', limit: 1 } }))
    assert.deepEqual(await news(), ['gantry_ready '])
    await store.finish((await store.claim(10, mine)).map((claim) => someEnding(claim)))
    assert.deepEqual((await news()).sort(), ['gantry_done b,c0000,mine', 'gantry_ready '])
  })

  test(`${engine}: however many calls end together, all are told of in parts that fit`, async (t) => {
    const { database, other } = await open(t)
    const heard: string[] = []
    await other.listen('gantry_done', (payload) => heard.push(payload ?? ''))
    const { store } = await sqlFixture(database, other)
    const calls = manyCalls(600).map((call) => ({ ...call, callId: `${call.callId}-${'ü'.repeat(20)}` }))
    await store.submit(calls)
    await store.finish((await store.claim(600, mine)).map((claim) => someEnding(claim)))
    const told = (): string[] => heard.flatMap((payload) => payload.split(','))
    while (told().length < 600) await new Promise((resolve) => setTimeout(resolve, 1))
    assert.deepEqual(
      told().sort(),
      calls.map(({ callId }) => callId),
    )
    assert.ok(heard.length > 3 && heard.every((payload) => Buffer.byteLength(payload) < 8_000))
  })

  test(`${engine}: a slot that stayed free although somebody waits for it is filled by reclaim`, async (t) => {
    const { database, other } = await open(t)
    const { store } = await sqlFixture(database, other)
    for (const key of ['p', 'q', 'r']) {
      await store.submit(
        manyCalls(3, { slot: { key, limit: 2 } }).map((call) => ({ ...call, callId: key + call.callId })),
      )
    }
    await database.query(`delete from queue where call_id in ('pc0000', 'rc0000', 'rc0001')`)
    assert.equal((await store.claim(10, mine)).length, 3)
    await store.reclaim({ max: 10 })
    const claims = await store.claim(10, mine)
    assert.deepEqual(claims.map(({ callId }) => callId).sort(), ['pc0002', 'rc0002'])
  })

  test(`${engine}: holders who name the same calls in different orders do not stand in each other’s way`, async (t) => {
    const { database, other } = await open(t)
    const { store, other: there, records } = await sqlFixture(database, other)
    await store.submit(manyCalls(60))
    const claims = await store.claim(60, mine)
    const orders = [claims, claims.toReversed(), claims.toSorted((a, b) => Math.sin(a.fence) - Math.sin(b.fence))]
    for (let round = 0; round < 20; round++) {
      const [one = [], two = [], three = []] = orders.map((order) => [...order.slice(round), ...order.slice(0, round)])
      await Promise.all([store.extend(one, 10_000), there.begin(two), there.extend(three, 10_000), store.begin(two)])
    }
    const ends = claims.toReversed().map((claim) => someEnding(claim))
    await Promise.all([store.extend(claims, 10_000), there.finish(ends), store.release([]), there.begin(claims)])
    assert.equal((await records()).results.length, 60)
  })

  test(`${engine}: submitters who use the same keys in different orders do not stand in each other’s way`, async (t) => {
    const { database, other } = await open(t)
    const { store, other: there } = await sqlFixture(database, other)
    for (let round = 0; round < 10; round++) {
      const calls = manyCalls(40).map((call, n) => ({
        ...call,
        callId: `${round}-${call.callId}`,
        key: `${round}-${n}`,
      }))
      const again = calls.toReversed().map((call) => ({ ...call, callId: `again-${call.callId}` }))
      const answers = await Promise.all([store.submit(calls), there.submit(again)])
      assert.equal(answers.flat().filter(({ kind }) => kind === 'new').length, 40)
    }
  })
}

function memoryFixture(): StoreFixture {
  let time = 1_000_000
  const store = memoryCallStore({ now: () => time })
  return {
    store,
    other: store,
    async pass(ms) {
      time += ms
    },
    records: async () => store.records,
  }
}
