import assert from 'node:assert/strict'
import type { AdmittedCall, CallStore } from '../../storage/calls/call-store.ts'
import { type Cases, claimOne, idsOf, loseOne, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

const one = { key: 's', limit: 1 }
const two = { key: 's', limit: 2 }

export const slots: Cases = {
  async 'of one slot key so many are claimed as it has slots, oldest first, whoever claims'({ store, other }) {
    await store.submit(manyCalls(5, { slot: two }))
    const [first, ...none] = await store.claim(1, mine)
    assert.ok(first !== undefined && none.length === 0)
    const [second, ...more] = await other.claim(10, theirs)
    assert.ok(second !== undefined && more.length === 0)
    assert.deepEqual([first.callId, second.callId], ['c0000', 'c0001'])
    assert.deepEqual(await store.claim(10, mine), [])
    await other.finish([someEnding(second)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0002'])
    await store.finish([someEnding(first)])
    assert.deepEqual(idsOf(await other.claim(10, theirs)), ['c0003'])
  },

  async 'other keys and calls without one pass by, each in its place'({ store }) {
    const other = { key: 'other', limit: 1 }
    await store.submit([someCall('s1', { slot: one }), someCall('s2', { slot: one }), someCall('free')])
    await store.submit([someCall('o1', { slot: other, priority: 1 }), someCall('o2', { slot: other, priority: 2 })])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['o1', 's1', 'free'])
  },

  async 'within a key the order is that of arrival, whatever the priority'({ store }) {
    await store.submit([someCall('a', { slot: one }), someCall('b', { slot: one, priority: 9 }), someCall('x')])
    const claims = await store.claim(10, mine)
    assert.deepEqual(idsOf(claims), ['a', 'x'])
  },

  async 'a lost holder’s slot stays with its call, which comes first'(fixture) {
    const { store } = fixture
    await store.submit(manyCalls(2, { slot: one }))
    await loseOne(fixture)
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0000'])
    assert.deepEqual(await store.claim(10, theirs), [])
  },

  async 'handed back for now it keeps its slot, for later it gives the slot to the next'({ store, pass }) {
    await store.submit(manyCalls(3, { slot: one }))
    await store.release([await claimOne(store)])
    const claim = await claimOne(store)
    assert.equal(claim.callId, 'c0000')
    await store.release([{ ...claim, delayMs: 60_000 }])
    const second = await claimOne(store, { ...mine, leaseMs: 600_000 })
    assert.equal(second.callId, 'c0001')
    await pass(61_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    assert.deepEqual(await store.claim(10, mine), [])
    await store.finish([someEnding(second)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0000'])
  },

  async 'a delayed call takes its slot when its time has come'({ store, pass }) {
    await store.submit([someCall('late', { slot: one, delayMs: 30_000 }), someCall('now', { slot: one })])
    const now = await claimOne(store)
    assert.equal(now.callId, 'now')
    await store.finish([someEnding(now)])
    assert.deepEqual(await store.claim(10, mine), [])
    await pass(31_000)
    await store.reclaim({ max: 10 })
    assert.equal((await claimOne(store)).callId, 'late')
  },

  async 'a call that is cancelled or expires leaves its slot to the next'({ store, pass }) {
    await store.submit([someCall('a', { slot: one }), someCall('b', { slot: one, deadlineMs: 5_000 })])
    await store.submit([someCall('c', { slot: one })])
    await store.cancel('a', 'acme')
    await pass(6_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['b'])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c'])
  },

  async 'however many hand in, claim and finish at once, the slots are never exceeded and all are done'(fixture) {
    const { store, other, records } = fixture
    const keys = [one, two, { key: 't', limit: 3 }].map((slot, n) => ({ ...slot, key: `${slot.key}${n}` }))
    const calls = manyCalls(60).map((call, index) => ({ ...call, slot: keys[index % 3] as (typeof keys)[0] }))
    const running = new Map(keys.map(({ key }) => [key, 0]))
    const exceeded: string[] = []
    const change = ({ slot }: AdmittedCall, by: number): void => {
      const now = (running.get(slot?.key ?? '') ?? 0) + by
      running.set(slot?.key ?? '', now)
      if (now > (slot?.limit ?? 0)) exceeded.push(`${slot?.key}: ${now}`)
    }
    let left = calls.length
    const work = async (which: CallStore, options: typeof mine): Promise<void> => {
      while (left > 0) {
        const claims = await which.claim(3, options)
        for (const { call } of claims) change(call, 1)
        // What runs is given back the moment before it may be somebody else's.
        for (const { call } of claims) change(call, -1)
        const ended = await which.finish(claims.map((claim) => someEnding(claim)))
        left -= ended.length
      }
    }
    const submits = calls.map((call, index) => (index % 2 === 0 ? store : other).submit([call]))
    await Promise.all([...submits, work(store, mine), work(other, theirs), work(store, mine), work(other, theirs)])
    assert.deepEqual(exceeded, [])
    assert.equal((await records()).results.length, calls.length)
  },

  async 'slots are kept also while calls are handed back, lost and cancelled from all sides'(fixture) {
    const { store, other } = fixture
    const calls = manyCalls(40, { slot: two })
    await Promise.all(calls.map((call, index) => (index % 2 === 0 ? store : other).submit([call])))
    let done = 0
    for (let round = 0; done < calls.length && round < 200; round++) {
      const [here, there] = await Promise.all([store.claim(2, mine), other.claim(2, theirs)])
      const claims = [...here, ...there]
      assert.ok(claims.length <= 2, `${claims.length} calls of a key with two slots`)
      const [first, second] = claims
      const mixed = [
        first === undefined ? undefined : other.release([{ ...first, delayMs: round % 3 === 0 ? 1 : 0 }]),
        second === undefined ? undefined : store.finish([someEnding(second)]).then((ended) => (done += ended.length)),
        round % 5 === 0
          ? store.cancel(`c00${round % 40}`, 'acme').then((fate) => (done += fate === 'ended' ? 1 : 0))
          : undefined,
        store.reclaim({ max: 10 }),
      ]
      await Promise.all(mixed)
      await fixture.pass(10)
      if (second !== undefined || first === undefined) continue
      const last = (await store.claim(2, mine)).map((claim) => someEnding(claim))
      done += (await store.finish(last)).length
    }
    assert.equal(done, calls.length)
  },
}
