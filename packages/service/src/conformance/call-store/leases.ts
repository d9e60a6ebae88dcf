import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
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

export const reclaiming: Cases = {
  async 'an expired lease is reclaimed, and the call can be claimed again'(fixture) {
    const { store, other, pass, records } = fixture
    await store.submit([someCall('c')])
    await claimOne(store)
    await pass(11_000)
    assert.deepEqual(await other.claim(10, theirs), [])
    assert.deepEqual(await other.reclaim({ max: 10 }), { lost: ['c'], promoted: 0, expired: [] })
    assert.deepEqual(await other.reclaim({ max: 10 }), { lost: [], promoted: 0, expired: [] })
    const next = await claimOne(other, theirs)
    assert.deepEqual([next.fence, next.deliveries, next.lost, next.deaths, next.begun], [2, 2, 1, 0, false])
    const { attempts, audit } = await records()
    assert.deepEqual(attempts, [{ callId: 'c', fence: 1, worker: 'w1', outcome: 'lost' }])
    assert.deepEqual(
      audit.map(({ phase, fence, worker }) => [phase, fence, worker]),
      [
        ['start', 1, 'w1'],
        ['lost', 1, 'w1'],
        ['start', 2, 'w2'],
      ],
    )
  },

  async 'reclaim() keeps unexpired leases, unless `leases` is all'({ store, other }) {
    await store.submit(manyCalls(3))
    await store.claim(2, mine)
    assert.deepEqual((await other.reclaim({ max: 10 })).lost, [])
    const { lost } = await other.reclaim({ max: 10, leases: 'all' })
    assert.deepEqual([...lost].sort(), ['c0000', 'c0001'])
    assert.deepEqual(idsOf(await other.claim(10, theirs)), ['c0000', 'c0001', 'c0002'])
  },

  async 'reclaim() with `leases` none promotes delayed calls and reclaims no lease'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('c'), someCall('delayed', { delayMs: 10_000 })])
    await claimOne(store)
    await pass(11_000)
    assert.deepEqual(await other.reclaim({ max: 10, leases: 'none' }), { lost: [], promoted: 1, expired: [] })
    assert.deepEqual((await other.reclaim({ max: 10 })).lost, ['c'])
  },

  async 'reclaim() after its notAfter reclaims no lease and returns the time of the store'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('c'), someCall('delayed', { delayMs: 10_000 })])
    await claimOne(store)
    await pass(11_000)
    const late = await other.reclaim({ max: 10, notAfter: 0 })
    const { at } = late
    assert.ok(at !== undefined && at > 0)
    assert.deepEqual(late, { lost: [], promoted: 1, expired: [], at })
    assert.deepEqual((await other.reclaim({ max: 10, leases: 'all', notAfter: at - 1 })).lost, [])
    assert.deepEqual((await other.reclaim({ max: 10, notAfter: at + 3_600_000 })).lost, ['c'])
  },

  async 'a death is counted for each worker that had begun and whose lease expired'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    for (const begin of [true, false, true]) await loseOne(fixture, begin)
    const claim = await claimOne(store)
    assert.deepEqual([claim.lost, claim.deaths, claim.begun, claim.deliveries], [3, 2, true, 4])
  },

  async 'reclaim() takes at most `max` leases'({ store, pass }) {
    await store.submit(manyCalls(5))
    await store.claim(5, mine)
    await pass(11_000)
    const sizes = []
    for (let round = 0; round < 4; round++) sizes.push((await store.reclaim({ max: 2 })).lost.length)
    assert.deepEqual(sizes, [2, 2, 1, 0])
  },

  async 'two concurrent reclaims reclaim each lease once'({ store, other, pass, records }) {
    await store.submit(manyCalls(100))
    await store.claim(100, mine)
    await pass(11_000)
    const both = await Promise.all([store.reclaim({ max: 100 }), other.reclaim({ max: 100 })])
    const rest = await store.reclaim({ max: 100 })
    assert.equal([...both, rest].flatMap(({ lost }) => lost).length, 100)
    assert.equal((await records()).attempts.length, 100)
  },

  async 'reclaim() promotes a delayed call when it is due, and returns the time until the next'({ store, pass }) {
    await store.submit([someCall('late', { delayMs: 30_000, priority: 1 }), someCall('later', { delayMs: 90_000 })])
    await store.submit([someCall('now')])
    await store.finish([someEnding(await claimOne(store))])
    const { nextMs, promoted } = await store.reclaim({ max: 10 })
    assert.ok(promoted === 0 && nextMs !== undefined && nextMs > 20_000 && nextMs <= 30_000)
    assert.deepEqual(await store.claim(10, mine), [])
    await pass(31_000)
    assert.deepEqual(await store.claim(10, mine), [])
    const second = await store.reclaim({ max: 10 })
    assert.equal(second.promoted, 1)
    assert.ok(second.nextMs !== undefined && second.nextMs > 50_000 && second.nextMs <= 60_000)
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['late'])
    await pass(60_000)
    const third = await store.reclaim({ max: 10 })
    assert.equal(third.promoted, 1)
    assert.equal(third.nextMs, undefined)
  },

  async 'reclaim() returns nextMs 0 when more delayed calls are due than `max`'({ store, pass }) {
    await store.submit(manyCalls(3, { delayMs: 1_000 }))
    await pass(2_000)
    assert.deepEqual(await store.reclaim({ max: 2 }), { lost: [], promoted: 2, expired: [], nextMs: 0 })
    assert.deepEqual(await store.reclaim({ max: 2 }), { lost: [], promoted: 1, expired: [] })
  },

  async 'a call whose deadline passes before it is claimed ends as timeout with effect none'(fixture) {
    const { store, pass, records } = fixture
    await store.submit([someCall('c', { deadlineMs: 5_000, callback: 'https://example.com/' })])
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
    await pass(6_000)
    assert.deepEqual(await store.reclaim({ max: 10 }), { lost: [], promoted: 0, expired: ['c'] })
    assert.deepEqual(await store.claim(10, mine), [])
    const { results, attempts, audit, outbox } = await records()
    const [kept] = results
    assert.deepEqual([kept?.callId, kept?.fence, kept?.status, kept?.code], ['c', 1, 'timeout', 'TIMEOUT'])
    const { error, ...result }: Result = JSON.parse(kept?.text ?? '')
    assert.deepEqual([error?.code, error?.effect], ['TIMEOUT', 'none'])
    const { callId, tool, status, output, attempts: tries, durationMs } = result
    assert.deepEqual([callId, status, output, tries, durationMs], ['c', 'timeout', null, 0, 0])
    assert.equal(tool?.version, '1.0.0')
    assert.equal(kept?.bytes, Buffer.byteLength(kept?.text ?? ''))
    assert.deepEqual(attempts, [])
    assert.deepEqual(audit, [
      {
        callId: 'c',
        fence: 1,
        phase: 'end',
        tenant: 'acme',
        principal: 'ada',
        tool: 'math:add:1.0.0',
        status: 'timeout',
        code: 'TIMEOUT',
      },
    ])
    assert.deepEqual(outbox, [{ callId: 'c', tenant: 'acme', kind: 'callback', target: 'https://example.com/' }])
  },

  async 'delayed, slot-waiting and released calls and chains end at their deadline'(fixture) {
    const { store, pass, records } = fixture
    const slot = { key: 's', limit: 1 }
    const deadlineMs = 30_000
    await store.submit([someCall('back', { deadlineMs })])
    await store.release([await claimOne(store)])
    await store.submit([
      someCall('delayed', { deadlineMs, delayMs: 90_000 }),
      someCall('first', { slot }),
      someCall('behind', { slot, deadlineMs }),
      someCall('chain', { kind: 'chain', tool: 'chain', deadlineMs }),
    ])
    await pass(31_000)
    const { expired } = await store.reclaim({ max: 10 })
    assert.deepEqual([...expired].sort(), ['back', 'behind', 'chain', 'delayed'])
    const chain = (await records()).results.find(({ callId }) => callId === 'chain')
    assert.deepEqual(JSON.parse(chain?.text ?? '').chainId, 'chain')
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['first'])
  },

  async 'reclaim() does not end a leased call at its deadline, and a claim has the time left'({ store, pass }) {
    await store.submit([someCall('c', { deadlineMs: 5_000 })])
    const claim = await claimOne(store)
    assert.ok(claim.deadlineMs !== undefined && claim.deadlineMs > 4_000 && claim.deadlineMs <= 5_000)
    await pass(6_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
    assert.deepEqual(await store.finish([someEnding(claim)]), ['c'])
  },

  async 'a call whose worker was lost is not ended at its deadline but left to the next claim'(fixture) {
    const { store, records } = fixture
    for (const begin of [true, false]) {
      await store.submit([someCall(`c${begin}`, { deadlineMs: 5_000 })])
      await loseOne(fixture, begin)
      assert.deepEqual(await store.reclaim({ max: 10 }), { lost: [], promoted: 0, expired: [] })
      const claim = await claimOne(store)
      assert.ok(claim.deadlineMs !== undefined && claim.deadlineMs < 0)
      assert.deepEqual([claim.lost, claim.begun], [1, begin])
      await store.release([claim])
      assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
      await store.finish([someEnding(await claimOne(store))])
    }
    assert.deepEqual(
      (await records()).results.map(({ status }) => status),
      ['ok', 'ok'],
    )
  },

  async 'reclaim() ends at most `max` calls'({ store, pass }) {
    await store.submit(manyCalls(5, { deadlineMs: 1_000 }))
    await pass(2_000)
    const sizes = []
    for (let round = 0; round < 4; round++) sizes.push((await store.reclaim({ max: 2 })).expired.length)
    assert.deepEqual(sizes, [2, 2, 1, 0])
  },
}

export const holding: Cases = {
  async 'begin() under the present fence succeeds, and can be repeated'({ store }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    assert.deepEqual(await store.begin([claim]), ['c'])
    assert.deepEqual(await store.begin([claim]), ['c'])
  },

  async 'begin() is refused under another fence, and for a reclaimed, completed or unknown call'(fixture) {
    const { store, other } = fixture
    await store.submit([someCall('a')])
    const late = await loseOne(fixture)
    assert.deepEqual(await store.begin([late]), [])
    const now = await claimOne(other, theirs)
    assert.deepEqual(await store.begin([late, { callId: 'a', fence: 3 }, { callId: 'missing', fence: 1 }]), [])
    await other.finish([someEnding(now)])
    assert.deepEqual(await other.begin([now]), [])
  },

  async 'a refused begin() counts no death'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('a')])
    const late = await loseOne(fixture)
    await claimOne(other, theirs)
    await store.begin([late])
    await pass(11_000)
    await store.reclaim({ max: 10 })
    assert.deepEqual((await claimOne(store)).deaths, 0)
  },

  async 'extend() keeps a lease from expiring'({ store, pass }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    for (let round = 0; round < 3; round++) {
      await pass(6_000)
      assert.deepEqual(await store.extend([claim], 10_000), { lost: [], cancelled: [] })
      assert.deepEqual((await store.reclaim({ max: 10 })).lost, [])
    }
    assert.deepEqual(await store.claim(1, theirs), [])
  },

  async 'a lease that expired but was not reclaimed can still be extended'({ store, pass }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    await pass(11_000)
    assert.deepEqual(await store.extend([claim], 10_000), { lost: [], cancelled: [] })
    assert.deepEqual((await store.reclaim({ max: 10 })).lost, [])
  },

  async 'extend() reports lost and cancelled calls, and extends the leases of the others'(fixture) {
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
    const holders = [late, taken, done, wanted, unwanted, { callId: 'missing', fence: 1 }]
    const { lost, cancelled } = await store.extend(holders, 60_000)
    assert.deepEqual([...lost].sort(), ['done', 'late', 'missing', 'taken'])
    assert.deepEqual(cancelled, ['unwanted'])
    await pass(11_000)
    const { lost: reclaimed } = await store.reclaim({ max: 10 })
    assert.deepEqual([...reclaimed].sort(), ['late', 'taken'])
  },

  async 'a released call can be claimed at once, and counts as neither lost nor begun'({ store, other, records }) {
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

  async 'a begin before a release counts no death for a worker that is lost later'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    await store.begin([claim])
    await store.release([claim])
    await loseOne(fixture)
    const next = await claimOne(store)
    assert.deepEqual([next.lost, next.deaths, next.begun], [1, 0, false])
  },

  async 'a release keeps the record that an earlier lost worker had begun'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    await loseOne(fixture, true)
    const second = await claimOne(store)
    assert.equal(second.begun, true)
    await store.release([second])
    const third = await claimOne(store)
    assert.deepEqual([third.begun, third.deaths, third.lost, third.deliveries], [true, 1, 1, 3])
  },

  async 'faults and rests are counted separately, once per release, and survive later claims'(fixture) {
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

  async 'a call released with a delay can be claimed after the delay'({ store, pass }) {
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

  async 'a release without the lease changes nothing'(fixture) {
    const { store, other, records } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    await store.release([{ ...late, delayMs: 60_000 }])
    const now = await claimOne(other, theirs)
    await store.release([late, { callId: 'missing', fence: 1 }])
    assert.deepEqual(await store.claim(1, mine), [])
    assert.deepEqual(await other.begin([now]), ['c'])
    assert.deepEqual(
      (await records()).audit.map(({ phase }) => phase),
      ['start', 'lost', 'start'],
    )
  },

  async 'each call of a batched release has its own delay'({ store, pass }) {
    await store.submit(manyCalls(4))
    const claims = await store.claim(4, mine)
    await store.release(claims.map((claim, index) => ({ ...holderOf(claim), delayMs: index * 20_000 })))
    for (const callId of ['c0000', 'c0001', 'c0002', 'c0003']) {
      await store.reclaim({ max: 10 })
      assert.deepEqual(idsOf(await store.claim(10, { ...mine, leaseMs: 1_000_000 })), [callId])
      await pass(20_000)
    }
  },

  async 'operations on an empty list return empty results'({ store }) {
    assert.deepEqual(await store.begin([]), [])
    assert.deepEqual(await store.extend([], 1_000), { lost: [], cancelled: [] })
    assert.deepEqual(await store.finish([]), [])
    assert.deepEqual(await store.outcomes([]), [])
    await store.release([])
  },
}
