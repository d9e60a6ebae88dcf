import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import { needLabel } from '../../storage/calls/call-facts.ts'
import { type Cases, claimOne, idsOf, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

export const claiming: Cases = {
  async 'an empty store has nothing to claim'({ store }) {
    assert.deepEqual(await store.claim(10, mine), [])
    assert.equal(await store.depth(10), 0)
  },

  async 'calls are claimed by priority, then by age'({ store }) {
    await store.submit([someCall('b', { priority: 1 }), someCall('a'), someCall('z', { priority: 1 })])
    await store.submit([someCall('n', { priority: -1 }), someCall('d', { priority: 9 }), someCall('0')])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['d'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['b', 'z'])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['a', '0', 'n'])
  },

  async 'calls of one batch are claimed in its order, whatever their ids'({ store }) {
    const calls = manyCalls(300).toReversed()
    await store.submit(calls)
    assert.deepEqual(idsOf(await store.claim(1_000, mine)), idsOf(calls.map((call) => ({ ...call, fence: 0 }))))
  },

  async 'a claim returns at most `max` calls, and no call is claimed twice'({ store, other }) {
    await store.submit(manyCalls(5))
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['c0000', 'c0001'])
    assert.deepEqual(idsOf(await other.claim(2, theirs)), ['c0002', 'c0003'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['c0004'])
    assert.deepEqual(await other.claim(2, theirs), [])
  },

  async 'fence and delivery count increase with each claim'({ store }) {
    await store.submit([someCall('c')])
    for (const count of [1, 2, 3]) {
      const claim = await claimOne(store)
      assert.deepEqual([claim.fence, claim.deliveries], [count, count])
      await store.release([claim])
    }
  },

  async 'each claim writes a start entry to the audit log, and each completion an end entry'({
    store,
    other,
    records,
  }) {
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

  async 'concurrent claims return each call once'({ store, other, records }) {
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

  async 'a claim that runs after its notAfter claims nothing, of one tenant or of several'({ store }) {
    await store.submit([someCall('a')])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1 }), [])
    await store.submit([someCall('b', { identity: { principal: 'bob', tenant: 'beta', permissions: [] } })])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1 }), [])
    assert.deepEqual(await store.claim(10, { ...mine, notAfter: -1, shares: { beta: { weight: 2 } } }), [])
    const inTime = await store.claim(10, { ...mine, notAfter: Date.now() + 3_600_000 })
    assert.deepEqual([...idsOf(inTime)].sort(), ['a', 'b'])
  },

  async 'depth() counts waiting calls, up to a limit'({ store }) {
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

const need = 'math:add:2.0.0 sha256:abc'
const needs = { needs: need, delayMs: 60_000 }
/** Claim options of a worker that has the tool. */
const having = { ...theirs, labels: { zone: 'a', [needLabel(need)]: '' } }

export const needing: Cases = {
  async 'a call that needs a tool is claimed only by workers that have it, once one has offered it'(fixture) {
    const { store, other, records } = fixture
    await store.submit([someCall('c', { placement: { zone: 'a' } }), someCall('plain', { delayMs: 60_000 })])
    await store.release([{ ...(await claimOne(store, having)), ...needs }])
    assert.deepEqual((await store.reclaim({ max: 10 })).wanted, [need])
    assert.deepEqual(await other.claim(10, having), [], 'no worker has offered yet')
    assert.equal(await other.offer(['other:tool:1.0.0'], 10), 0)
    assert.equal(await other.offer([need], 10), 1)
    assert.equal(await other.offer([need], 10), 0)
    assert.deepEqual(
      await store.claim(10, { ...mine, labels: { zone: 'a' } }),
      [],
      'the worker without the tool does not get it again',
    )
    const claim = await claimOne(other, having)
    assert.deepEqual([claim.callId, claim.waitedOut, claim.lost], ['c', undefined, 0])
    assert.deepEqual(claim.call.placement, { zone: 'a' }, 'the label of the need is not part of the placement')
    assert.deepEqual(await other.finish([someEnding(claim)]), ['c'])
    assert.equal((await store.reclaim({ max: 10 })).wanted, undefined)
    assert.deepEqual(
      (await records()).attempts.map(({ worker, outcome }) => [worker, outcome]),
      [
        ['w2', 'released'],
        ['w2', 'ok'],
      ],
    )
  },

  async 'a call whose tool is missing can be claimed by any worker after its time limit, with waitedOut'({
    store,
    pass,
  }) {
    await store.submit([someCall('never'), someCall('offered')])
    for (const claim of await store.claim(2, mine)) await store.release([{ ...claim, ...needs }])
    await store.offer([need], 1)
    await pass(30_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 0)
    assert.deepEqual(await store.claim(10, mine), [])
    await pass(31_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 2, 'one still waits, and the other was offered')
    assert.equal((await store.reclaim({ max: 10 })).promoted, 0)
    const claims = await store.claim(10, mine)
    assert.deepEqual(
      claims.map(({ callId, waitedOut }) => [callId, waitedOut]),
      [
        ['never', true],
        ['offered', true],
      ],
    )
  },

  async 'the time limit runs from the first release for the same need, and restarts after another release'(fixture) {
    const { store, pass } = fixture
    await store.submit([someCall('c')])
    await store.release([{ ...(await claimOne(store)), ...needs }])
    await store.offer([need], 10)
    await pass(40_000)
    await store.release([{ ...(await claimOne(store, having)), ...needs }])
    await pass(21_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    const claim = await claimOne(store)
    assert.equal(claim.waitedOut, true)
    await store.release([{ ...claim, delayMs: 5_000 }])
    await pass(6_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).wanted, undefined)
    const again = await claimOne(store)
    assert.equal(again.waitedOut, undefined)
    await store.release([{ ...again, ...needs }])
    await pass(30_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 0)
  },

  async 'the timeout of a call whose tool is missing names the tool'({ store, pass, records }) {
    await store.submit([someCall('c', { deadlineMs: 20_000 })])
    await store.release([{ ...(await claimOne(store)), ...needs }])
    await pass(21_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['c'])
    const [{ text = '' } = {}] = (await records()).results
    const { error }: Result = JSON.parse(text)
    assert.equal(error?.code, 'TIMEOUT')
    assert.match(error?.message ?? '', /No worker had math:add:2\.0\.0 \(definition sha256:abc\)/)
  },

  async 'a call that waits for a tool can be cancelled, and a cancelled chain can be claimed without the tool'(
    fixture,
  ) {
    const { store } = fixture
    await store.submit([someCall('c'), someCall('chain', { kind: 'chain', tool: 'chain' })])
    for (const claim of await store.claim(2, mine)) await store.release([{ ...claim, ...needs }])
    assert.equal(await store.cancel('c', 'acme'), 'ended')
    assert.equal(await store.cancel('chain', 'acme'), 'asked')
    assert.equal((await claimOne(store)).cancelled, true)
    await store.submit([someCall('held')])
    const held = await claimOne(store)
    assert.equal(await store.cancel('held', 'acme'), 'asked')
    await store.release([{ ...held, ...needs }])
    assert.equal((await claimOne(store)).cancelled, true)
  },

  async 'a call that waits for a tool gives its slot to the next, and queues for one again when it is offered'({
    store,
  }) {
    const slot = { key: 's', limit: 1 }
    await store.submit([someCall('one', { slot }), someCall('two', { slot })])
    await store.release([{ ...(await claimOne(store)), ...needs }])
    const two = await claimOne(store)
    assert.equal(two.callId, 'two')
    assert.equal(await store.offer([need], 10), 1)
    assert.deepEqual(await store.claim(10, having), [])
    await store.finish([someEnding(two)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), [])
    assert.deepEqual(idsOf(await store.claim(10, having)), ['one'])
  },
}
