import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import { type Cases, claimOne, idsOf, loseOne, mine, someCall, someEnding, theirs } from './samples.ts'

const slot = { key: 's', limit: 1 }
const asked = { asked: true, delayMs: 60_000 }

export const asking: Cases = {
  async 'a call that is asked is nobody’s to claim until it is resumed, and then at once'({ store, other, records }) {
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

  async 'without a decision it comes back when its time is over'({ store, pass }) {
    await store.submit([someCall('c')])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    const { nextMs } = await store.reclaim({ max: 10 })
    assert.ok(nextMs !== undefined && nextMs > 50_000 && nextMs <= 60_000)
    await pass(61_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c'])
  },

  async 'who was resumed or cancelled while he held the call does not wait for a person'({ store, other }) {
    await store.submit([someCall('resumed')])
    const first = await claimOne(store)
    await other.resume('resumed')
    await store.release([{ ...first, ...asked }])
    const next = await claimOne(store)
    await store.release([{ ...next, ...asked }])
    assert.deepEqual(await store.claim(10, mine), [], 'a decision counts for the holder under whom it came')
    await store.submit([someCall('cancelled')])
    const held = await claimOne(store)
    assert.equal(await other.cancel('cancelled', 'acme'), 'asked')
    await store.release([{ ...held, ...asked }])
    assert.equal((await claimOne(store)).cancelled, true)
  },

  async 'a resume does nothing to a call that waits for something else, runs, has ended or never was'(fixture) {
    const { store } = fixture
    await store.submit([someCall('delayed', { delayMs: 60_000 }), someCall('one', { slot }), someCall('two', { slot })])
    for (const callId of ['delayed', 'two', 'nobody']) await store.resume(callId)
    const claim = await claimOne(store)
    assert.equal(claim.callId, 'one')
    await store.resume('one')
    assert.deepEqual(await store.claim(10, mine), [])
    assert.deepEqual(await store.finish([someEnding(claim)]), ['one'])
    await store.resume('one')
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['two'])
  },

  async 'who is not the holder cannot say that a call is asked'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    await store.release([{ ...late, ...asked }])
    const next = await claimOne(store)
    await store.release([{ ...late, ...asked }])
    assert.deepEqual(await store.finish([someEnding(next)]), ['c'])
  },

  async 'a call that is asked leaves its slot to the next, and gets in line again'({ store }) {
    await store.submit([someCall('one', { slot }), someCall('two', { slot })])
    await store.release([{ ...(await claimOne(store)), ...asked }])
    const two = await claimOne(store)
    assert.equal(two.callId, 'two')
    await store.resume('one')
    assert.deepEqual(await store.claim(10, mine), [])
    await store.finish([someEnding(two)])
    assert.equal((await claimOne(store)).callId, 'one')
  },

  async 'a call that is asked is cancelled at once, and at its deadline out of time; it changed nothing'(fixture) {
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

  async 'a program that sleeps may have run in part, and wakes to be cancelled'({ store, records }) {
    const program = { kind: 'code', tool: 'code:program:1.0.0', effect: 'repeatable' } as const
    await store.submit([someCall('asleep', program), someCall('awake', program), someCall('new', program)])
    for (const claim of await store.claim(2, mine)) {
      if (claim.callId === 'awake') assert.equal(await store.cancel('awake', 'acme'), 'asked')
      await store.release([{ ...claim, delayMs: 3_600_000 }])
    }
    assert.equal(await store.cancel('new', 'acme'), 'ended')
    const awake = await claimOne(store)
    assert.deepEqual([awake.callId, awake.cancelled], ['awake', true], 'who is cancelled already does not fall asleep')
    assert.equal(await store.cancel('asleep', 'acme'), 'asked')
    const asleep = await claimOne(store)
    assert.deepEqual([asleep.callId, asleep.cancelled, asleep.call.kind], ['asleep', true, 'code'])
    await store.finish([someEnding(awake), someEnding(asleep)])
    assert.equal((await records()).results.length, 3)
  },

  async 'a chain that is asked may have run in part, so the next claimant ends it'({ store, pass, records }) {
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
