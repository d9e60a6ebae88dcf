import assert from 'node:assert/strict'
import { type Cases, claimOne, idsOf, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

export const claiming: Cases = {
  async 'an empty store has nothing to claim'({ store }) {
    assert.deepEqual(await store.claim(10, mine), [])
    assert.equal(await store.depth(10), 0)
  },

  async 'the highest priority is first, then the oldest'({ store }) {
    await store.submit([someCall('b', { priority: 1 }), someCall('a'), someCall('z', { priority: 1 })])
    await store.submit([someCall('n', { priority: -1 }), someCall('d', { priority: 9 }), someCall('0')])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['d'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['b', 'z'])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['a', '0', 'n'])
  },

  async 'calls of one batch are claimed in its order, whatever they are called'({ store }) {
    const calls = manyCalls(300).toReversed()
    await store.submit(calls)
    assert.deepEqual(idsOf(await store.claim(1_000, mine)), idsOf(calls.map((call) => ({ ...call, fence: 0 }))))
  },

  async 'no more are claimed than asked for, and none twice'({ store, other }) {
    await store.submit(manyCalls(5))
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['c0000', 'c0001'])
    assert.deepEqual(idsOf(await other.claim(2, theirs)), ['c0002', 'c0003'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['c0004'])
    assert.deepEqual(await other.claim(2, theirs), [])
  },

  async 'the fence and the count rise with each claim'({ store }) {
    await store.submit([someCall('c')])
    for (const count of [1, 2, 3]) {
      const claim = await claimOne(store)
      assert.deepEqual([claim.fence, claim.deliveries], [count, count])
      await store.release([claim])
    }
  },

  async 'a start is on record for each claim, and an end for each finish'({ store, other, records }) {
    await store.submit([someCall('a'), someCall('b')])
    const [a] = await store.claim(1, mine)
    const [b] = await other.claim(1, theirs)
    assert.ok(a !== undefined && b !== undefined)
    await store.finish([someEnding(a, { config: 'v1' })])
    const line = { fence: 1, tenant: 'acme', principal: 'ada', tool: 'math:add:1.0.0' }
    assert.deepEqual((await records()).audit, [
      { callId: 'a', phase: 'start', worker: 'w1', ...line },
      { callId: 'b', phase: 'start', worker: 'w2', ...line },
      { callId: 'a', phase: 'end', worker: 'w1', status: 'ok', config: 'v1', ...line },
    ])
  },

  async 'two who claim at once share the calls without overlap'({ store, other, records }) {
    await store.submit(manyCalls(300))
    const drain = async (which: typeof store, options: typeof mine): Promise<string[]> => {
      const got: string[] = []
      for (let claims = await which.claim(7, options); claims.length > 0; claims = await which.claim(7, options)) {
        got.push(...idsOf(claims))
      }
      return got
    }
    const got = await Promise.all([drain(store, mine), drain(other, theirs), drain(store, mine), drain(other, theirs)])
    assert.deepEqual(got.flat().sort(), idsOf(manyCalls(300).map((call) => ({ ...call, fence: 1 }))))
    const { audit } = await records()
    assert.equal(new Set(audit.map(({ callId, fence }) => `${callId} ${fence}`)).size, 300)
    assert.equal(audit.length, 300)
  },

  async 'a claim that is done after its time takes nothing, of one tenant or of several'({ store }) {
    await store.submit([someCall('a')])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1 }), [])
    await store.submit([someCall('b', { identity: { principal: 'bob', tenant: 'beta', permissions: [] } })])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1 }), [])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1, shares: { beta: { weight: 2 } } }), [])
    const inTime = await store.claim(10, { ...mine, notAfter: Date.now() + 3_600_000 })
    assert.deepEqual([...idsOf(inTime)].sort(), ['a', 'b'])
  },

  async 'depth counts what waits, up to a limit'({ store }) {
    const slot = { key: 's', limit: 1 }
    await store.submit([...manyCalls(6), someCall('d', { delayMs: 60_000 })])
    await store.submit([someCall('s1', { slot }), someCall('s2', { slot })])
    assert.equal(await store.depth(100), 8)
    assert.equal(await store.depth(3), 3)
    await store.claim(4, mine)
    assert.equal(await store.depth(100), 4)
    await store.claim(100, mine)
    assert.equal(await store.depth(100), 1)
  },
}
