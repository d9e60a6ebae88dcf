import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import { type Cases, claimOne, idsOf, loseOne, mine, someCall, someEnding, theirs } from './samples.ts'

const slot = { key: 's', limit: 1 }
const asked = { asked: true, delayMs: 60_000 }

export const asking: Cases = {
  async 'a call that waits for approval cannot be claimed until it is resumed'({ store, other, records }) {
    await store.submit([someCall('c')])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    await other.reclaim({ max: 10 })
    assert.deepEqual(await other.claim(10, theirs), [])
    assert.equal(await store.depth(10), 0)
    await other.resume('c')
    assert.equal(await store.depth(10), 1)
    const next = await claimOne(other, theirs)
    assert.deepEqual([next.fence, next.deliveries, next.lost, next.begun], [2, 2, 0, false])
    assert.deepEqual((await records()).attempts, [{ callId: 'c', fence: 1, worker: 'w1', outcome: 'released' }])
  },

  async 'a call that waits for approval can be claimed after its time limit'({ store, pass }) {
    await store.submit([someCall('c')])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    const { nextMs } = await store.reclaim({ max: 10 })
    assert.ok(nextMs !== undefined && nextMs > 50_000 && nextMs <= 60_000)
    await pass(61_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c'])
  },

  async 'a call that was resumed or cancelled before its release for approval can be claimed at once'({
    store,
    other,
  }) {
    await store.submit([someCall('resumed')])
    const first = await claimOne(store)
    await other.resume('resumed')
    await store.release([{ ...first, ...asked }])
    const next = await claimOne(store)
    await store.release([{ ...next, ...asked }])
    assert.deepEqual(await store.claim(10, mine), [], 'a decision counts only for the claim during which it came')
    await store.submit([someCall('cancelled')])
    const held = await claimOne(store)
    assert.equal(await other.cancel('cancelled', 'acme'), 'asked')
    await store.release([{ ...held, ...asked }])
    assert.equal((await claimOne(store)).cancelled, true)
  },

  async 'resume() does nothing to a call that is delayed, waits for a slot, runs, has ended or is unknown'(fixture) {
    const { store } = fixture
    await store.submit([someCall('delayed', { delayMs: 60_000 }), someCall('one', { slot }), someCall('two', { slot })])
    for (const callId of ['delayed', 'two', 'missing']) await store.resume(callId)
    const claim = await claimOne(store)
    assert.equal(claim.callId, 'one')
    await store.resume('one')
    assert.deepEqual(await store.claim(10, mine), [])
    assert.deepEqual(await store.finish([someEnding(claim)]), ['one'])
    await store.resume('one')
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['two'])
  },

  async 'a worker without the lease cannot release a call for approval'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    await store.release([{ ...late, ...asked }])
    const next = await claimOne(store)
    await store.release([{ ...late, ...asked }])
    assert.deepEqual(await store.finish([someEnding(next)]), ['c'])
  },

  async 'a call that waits for approval gives its slot to the next, and queues for one again when resumed'({ store }) {
    await store.submit([someCall('one', { slot }), someCall('two', { slot })])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    const two = await claimOne(store)
    assert.equal(two.callId, 'two')
    await store.resume('one')
    assert.deepEqual(await store.claim(10, mine), [])
    await store.finish([someEnding(two)])
    assert.equal((await claimOne(store)).callId, 'one')
  },

  async 'a call that waits for approval ends when it is cancelled or at its deadline, with effect none'(fixture) {
    const { store, pass, records } = fixture
    await store.submit([someCall('cancelled')])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    assert.equal(await store.cancel('cancelled', 'acme'), 'ended')
    await store.submit([someCall('late', { deadlineMs: 30_000 })])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    await pass(31_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['late'])
    await store.resume('late')
    assert.deepEqual(await store.claim(10, mine), [])
    const ends = (await records()).results.map(({ text }) => (JSON.parse(text ?? '') as Result).error)
    assert.deepEqual(
      ends.map((error) => [error?.code, error?.effect]),
      [
        ['CANCELLED', 'none'],
        ['TIMEOUT', 'none'],
      ],
    )
  },

  async 'cancelling a sleeping program makes it claimable, because it may have run in part'({ store, records }) {
    const program = { kind: 'code', tool: 'code:program:1.0.0', effect: 'repeatable' } as const
    await store.submit([someCall('asleep', program), someCall('awake', program), someCall('new', program)])
    for (const claim of await store.claim(2, mine)) {
      if (claim.callId === 'awake') assert.equal(await store.cancel('awake', 'acme'), 'asked')
      await store.release([{ ...claim, delayMs: 3_600_000 }])
    }
    assert.equal(await store.cancel('new', 'acme'), 'ended')
    const awake = await claimOne(store)
    assert.deepEqual(
      [awake.callId, awake.cancelled],
      ['awake', true],
      'a cancelled program is not delayed by its release',
    )
    assert.equal(await store.cancel('asleep', 'acme'), 'asked')
    const asleep = await claimOne(store)
    assert.deepEqual([asleep.callId, asleep.cancelled, asleep.call.kind], ['asleep', true, 'code'])
    await store.finish([someEnding(awake), someEnding(asleep)])
    assert.equal((await records()).results.length, 3)
  },

  async 'a chain that waits for approval may have run in part, so that the next worker ends it'({
    store,
    pass,
    records,
  }) {
    const chain = { kind: 'chain', tool: 'chain', effect: 'repeatable' } as const
    await store.submit([someCall('cancelled', chain)])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    assert.equal(await store.cancel('cancelled', 'acme'), 'asked')
    const claim = await claimOne(store)
    assert.equal(claim.cancelled, true)
    await store.finish([someEnding(claim)])
    await store.submit([someCall('late', { ...chain, deadlineMs: 30_000 })])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    await pass(31_000)
    for (let round = 0; round < 2; round++) assert.deepEqual((await store.reclaim({ max: 10 })).expired, [])
    const late = await claimOne(store)
    assert.ok(late.deadlineMs !== undefined && late.deadlineMs < 0)
    assert.deepEqual(await store.finish([someEnding(late)]), ['late'])
    assert.equal((await records()).results.length, 2)
  },
}
