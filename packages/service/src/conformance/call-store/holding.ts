import assert from 'node:assert/strict'
import {
  type Cases,
  claimOne,
  holderOf,
  idsOf,
  loseOne,
  manyCalls,
  mine,
  someCall,
  someEnding,
  theirs,
} from './samples.ts'

export const holding: Cases = {
  async 'a holder may begin, and begin again'({ store }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    assert.deepEqual(await store.begin([claim]), ['c'])
    assert.deepEqual(await store.begin([claim]), ['c'])
  },

  async 'who does not hold a call may not begin: old fence, future fence, taken away, finished, unknown'(fixture) {
    const { store, other } = fixture
    await store.submit([someCall('a')])
    const late = await loseOne(fixture)
    assert.deepEqual(await store.begin([late]), [])
    const now = await claimOne(other, theirs)
    assert.deepEqual(await store.begin([late, { callId: 'a', fence: 3 }, { callId: 'nobody', fence: 1 }]), [])
    await other.finish([someEnding(now)])
    assert.deepEqual(await other.begin([now]), [])
  },

  async 'a begin that was refused leaves no trace'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('a')])
    const late = await loseOne(fixture)
    await claimOne(other, theirs)
    await store.begin([late])
    await pass(11_000)
    await store.reclaim({ max: 10 })
    assert.deepEqual((await claimOne(store)).deaths, 0)
  },

  async 'extending keeps a lease beyond its time'({ store, pass }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    for (let round = 0; round < 3; round++) {
      await pass(6_000)
      assert.deepEqual(await store.extend([claim], 10_000), { lost: [], cancelled: [] })
      assert.deepEqual((await store.reclaim({ max: 10 })).lost, [])
    }
    assert.deepEqual(await store.claim(1, theirs), [])
  },

  async 'a lease that ran out but was not taken away can still be extended'({ store, pass }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    await pass(11_000)
    assert.deepEqual(await store.extend([claim], 10_000), { lost: [], cancelled: [] })
    assert.deepEqual((await store.reclaim({ max: 10 })).lost, [])
  },

  async 'extending tells what is lost and what is to be cancelled, and prolongs the rest'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('late'), someCall('taken')])
    const [late, taken] = await store.claim(2, mine)
    assert.ok(late !== undefined && taken !== undefined)
    await pass(11_000)
    await store.reclaim({ max: 10 })
    await other.claim(1, theirs)
    await store.submit([someCall('done'), someCall('wanted'), someCall('unwanted')])
    const claims = await store.claim(10, mine)
    const [again, done, wanted, unwanted] = claims
    assert.ok(again?.callId === 'taken' && done !== undefined && wanted !== undefined && unwanted !== undefined)
    await store.finish([someEnding(done)])
    await store.cancel('unwanted', 'acme')
    const holders = [late, taken, done, wanted, unwanted, { callId: 'nobody', fence: 1 }]
    const { lost, cancelled } = await store.extend(holders, 60_000)
    assert.deepEqual([...lost].sort(), ['done', 'late', 'nobody', 'taken'])
    assert.deepEqual(cancelled, ['unwanted'])
    await pass(11_000)
    const { lost: reclaimed } = await store.reclaim({ max: 10 })
    assert.deepEqual([...reclaimed].sort(), ['late', 'taken'])
  },

  async 'what is handed back can be claimed at once, and counts as neither lost nor begun'({ store, other, records }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    await store.begin([claim])
    await store.release([claim])
    const next = await claimOne(other, theirs)
    assert.deepEqual([next.fence, next.deliveries, next.lost, next.deaths, next.begun], [2, 2, 0, 0, false])
    const { attempts, audit } = await records()
    assert.deepEqual(attempts, [{ callId: 'c', fence: 1, worker: 'w1', outcome: 'released' }])
    assert.deepEqual(
      audit.map(({ phase, fence }) => [phase, fence]),
      [
        ['start', 1],
        ['released', 1],
        ['start', 2],
      ],
    )
  },

  async 'a begin of one who handed back is not held against one who is lost later'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    await store.begin([claim])
    await store.release([claim])
    await loseOne(fixture)
    const next = await claimOne(store)
    assert.deepEqual([next.lost, next.deaths, next.begun], [1, 0, false])
  },

  async 'handing back does not hide that one before had begun'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    await loseOne(fixture, true)
    const second = await claimOne(store)
    assert.equal(second.begun, true)
    await store.release([second])
    const third = await claimOne(store)
    assert.deepEqual([third.begun, third.deaths, third.lost, third.deliveries], [true, 1, 1, 3])
  },

  async 'faults and rests are counted each by itself, for whoever hands it back because of them, and for ever'(
    fixture,
  ) {
    const { store, other } = fixture
    await store.submit([someCall('c')])
    const counts = async (): Promise<readonly number[]> => {
      const { faults, rests, deliveries } = await claimOne(other, theirs)
      return [faults, rests, deliveries]
    }
    assert.deepEqual(await counts(), [0, 0, 1])
    const reasons = [undefined, 'fault', 'rest', 'rest', undefined] as const
    for (const [index, counts] of reasons.entries()) {
      const holder = { callId: 'c', fence: index + 1, ...(counts === undefined ? {} : { counts }) }
      await store.release([holder])
      await store.release([holder])
      if (index < reasons.length - 1) await claimOne(store)
    }
    await loseOne(fixture)
    assert.deepEqual(await counts(), [1, 2, 7])
  },

  async 'what is handed back for later comes when its time has come'({ store, pass }) {
    await store.submit([someCall('c')])
    await store.release([{ ...(await claimOne(store)), delayMs: 60_000 }])
    assert.deepEqual(await store.claim(1, mine), [])
    const { promoted, nextMs } = await store.reclaim({ max: 10 })
    assert.equal(promoted, 0)
    assert.ok(nextMs !== undefined && nextMs > 50_000 && nextMs <= 60_000)
    await pass(61_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    assert.equal((await claimOne(store)).fence, 2)
  },

  async 'who does not hold a call cannot hand it back'(fixture) {
    const { store, other, records } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    await store.release([{ ...late, delayMs: 60_000 }])
    const now = await claimOne(other, theirs)
    await store.release([late, { callId: 'nobody', fence: 1 }])
    assert.deepEqual(await store.claim(1, mine), [])
    assert.deepEqual(await other.begin([now]), ['c'])
    assert.deepEqual(
      (await records()).audit.map(({ phase }) => phase),
      ['start', 'lost', 'start'],
    )
  },

  async 'each of many is handed back for its own time'({ store, pass }) {
    await store.submit(manyCalls(4))
    const claims = await store.claim(4, mine)
    await store.release(claims.map((claim, index) => ({ ...holderOf(claim), delayMs: index * 20_000 })))
    for (const callId of ['c0000', 'c0001', 'c0002', 'c0003']) {
      await store.reclaim({ max: 10 })
      assert.deepEqual(idsOf(await store.claim(10, { ...mine, leaseMs: 1_000_000 })), [callId])
      await pass(20_000)
    }
  },

  async 'nothing is asked of no holders'({ store }) {
    assert.deepEqual(await store.begin([]), [])
    assert.deepEqual(await store.extend([], 1_000), { lost: [], cancelled: [] })
    assert.deepEqual(await store.finish([]), [])
    assert.deepEqual(await store.outcomes([]), [])
    await store.release([])
  },
}
