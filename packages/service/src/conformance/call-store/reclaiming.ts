import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import { type Cases, claimOne, idsOf, loseOne, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

export const reclaiming: Cases = {
  async 'a lease that ran out is taken away, and the call can be claimed again'(fixture) {
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

  async 'a lease that lasts stays, unless all holders are known to be dead'({ store, other }) {
    await store.submit(manyCalls(3))
    await store.claim(2, mine)
    assert.deepEqual((await other.reclaim({ max: 10 })).lost, [])
    const { lost } = await other.reclaim({ max: 10, leases: 'all' })
    assert.deepEqual([...lost].sort(), ['c0000', 'c0001'])
    assert.deepEqual(idsOf(await other.claim(10, theirs)), ['c0000', 'c0001', 'c0002'])
  },

  async 'with no lease to take, what is delayed comes all the same'(fixture) {
    const { store, other, pass } = fixture
    await store.submit([someCall('c'), someCall('delayed', { delayMs: 10_000 })])
    await claimOne(store)
    await pass(11_000)
    assert.deepEqual(await other.reclaim({ max: 10, leases: 'none' }), { lost: [], promoted: 1, expired: [] })
    assert.deepEqual((await other.reclaim({ max: 10 })).lost, ['c'])
  },

  async 'a reclaim that is done later than it may be takes no lease, and tells what time it is'(fixture) {
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

  async 'a death is counted for each holder who had begun and let his lease run out'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    for (const begin of [true, false, true]) await loseOne(fixture, begin)
    const claim = await claimOne(store)
    assert.deepEqual([claim.lost, claim.deaths, claim.begun, claim.deliveries], [3, 2, true, 4])
  },

  async 'at most so many are taken away at a time'({ store, pass }) {
    await store.submit(manyCalls(5))
    await store.claim(5, mine)
    await pass(11_000)
    const sizes = []
    for (let round = 0; round < 4; round++) sizes.push((await store.reclaim({ max: 2 })).lost.length)
    assert.deepEqual(sizes, [2, 2, 1, 0])
  },

  async 'two who reclaim at once take each lease away once'({ store, other, pass, records }) {
    await store.submit(manyCalls(100))
    await store.claim(100, mine)
    await pass(11_000)
    const both = await Promise.all([store.reclaim({ max: 100 }), other.reclaim({ max: 100 })])
    const rest = await store.reclaim({ max: 100 })
    assert.equal([...both, rest].flatMap(({ lost }) => lost).length, 100)
    assert.equal((await records()).attempts.length, 100)
  },

  async 'a delayed call comes when its time has come, in its place'({ store, pass }) {
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

  async 'when more delayed calls are due than asked for, there is more to do at once'({ store, pass }) {
    await store.submit(manyCalls(3, { delayMs: 1_000 }))
    await pass(2_000)
    assert.deepEqual(await store.reclaim({ max: 2 }), { lost: [], promoted: 2, expired: [], nextMs: 0 })
    assert.deepEqual(await store.reclaim({ max: 2 }), { lost: [], promoted: 1, expired: [] })
  },

  async 'a call whose deadline passed before anybody ran it ends as a timeout that changed nothing'(fixture) {
    const { store, pass, records } = fixture
    await store.submit([someCall('c', { deadlineMs: 5_000, callback: 'https://example.com/' })])
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
    await pass(6_000)
    assert.deepEqual(await store.reclaim({ max: 10 }), { lost: [], promoted: 0, expired: ['c'] })
    assert.deepEqual(await store.claim(10, mine), [])
    const { results, attempts, audit, outbox } = await records()
    const [kept] = results
    assert.deepEqual([kept?.callId, kept?.fence, kept?.status, kept?.code], ['c', 1, 'timeout', 'TIMEOUT'])
    const { error, ...result } = JSON.parse(kept?.text ?? '') as Result
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

  async 'whatever waits ends at its deadline: delayed, behind others of its slot, handed back, a chain'(fixture) {
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

  async 'a deadline does not end a call that somebody holds; he is told how long he has'({ store, pass }) {
    await store.submit([someCall('c', { deadlineMs: 5_000 })])
    const claim = await claimOne(store)
    assert.ok(claim.deadlineMs !== undefined && claim.deadlineMs > 4_000 && claim.deadlineMs <= 5_000)
    await pass(6_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
    assert.deepEqual(await store.finish([someEnding(claim)]), ['c'])
  },

  async 'a call that somebody may have run is not ended by its deadline but left to the next'(fixture) {
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

  async 'at most so many are ended or let in at a time'({ store, pass }) {
    await store.submit(manyCalls(5, { deadlineMs: 1_000 }))
    await pass(2_000)
    const sizes = []
    for (let round = 0; round < 4; round++) sizes.push((await store.reclaim({ max: 2 })).expired.length)
    assert.deepEqual(sizes, [2, 2, 1, 0])
  },
}
