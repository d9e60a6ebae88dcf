import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import { needLabel } from '../../storage/calls/needed-tools.ts'
import { type Cases, claimOne, idsOf, mine, someCall, someEnding, theirs } from './samples.ts'

const need = 'math:add:2.0.0 sha256:abc'
const needs = { needs: need, delayMs: 60_000 }
/** How a worker claims that has the tool. */
const having = { ...theirs, labels: { zone: 'a', [needLabel(need)]: '' } }

export const needing: Cases = {
  async 'a call that needs a tool is claimed by workers that have it, once one has offered'(fixture) {
    const { store, other, records } = fixture
    await store.submit([someCall('c', { placement: { zone: 'a' } }), someCall('plain', { delayMs: 60_000 })])
    await store.release([{ ...(await claimOne(store, having)), ...needs }])
    assert.deepEqual((await store.reclaim({ max: 10 })).wanted, [need])
    assert.deepEqual(await other.claim(10, having), [], 'nobody has offered yet')
    assert.equal(await other.offer(['other:tool:1.0.0'], 10), 0)
    assert.equal(await other.offer([need], 10), 1)
    assert.equal(await other.offer([need], 10), 0)
    assert.deepEqual(
      await store.claim(10, { ...mine, labels: { zone: 'a' } }),
      [],
      'it does not come back to the first',
    )
    const claim = await claimOne(other, having)
    assert.deepEqual([claim.callId, claim.waitedOut, claim.lost], ['c', undefined, 0])
    assert.deepEqual(claim.call.placement, { zone: 'a' }, 'the label of the need is not the call’s own')
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

  async 'a call whose tool never comes is anybody’s after its time, and says so'({ store, pass }) {
    await store.submit([someCall('never'), someCall('offered')])
    for (const claim of await store.claim(2, mine)) await store.release([{ ...claim, ...needs }])
    await store.offer([need], 1)
    await pass(30_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 0)
    assert.deepEqual(await store.claim(10, mine), [])
    await pass(31_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 2, 'one waits, the other one was offered')
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

  async 'the time counts from the first time that the tool was missed, unless something else came between'(fixture) {
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

  async 'a deadline that passes while a tool is missing names the tool'({ store, pass, records }) {
    await store.submit([someCall('c', { deadlineMs: 20_000 })])
    await store.release([{ ...(await claimOne(store)), ...needs }])
    await pass(21_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['c'])
    const [{ text = '' } = {}] = (await records()).results
    const { error } = JSON.parse(text) as Result
    assert.equal(error?.code, 'TIMEOUT')
    assert.match(error?.message ?? '', /No worker had math:add:2\.0\.0 \(definition sha256:abc\)/)
  },

  async 'a call that waits for a tool can be cancelled, and one that ran in part then needs no tool'(fixture) {
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

  async 'a call that waits for a tool leaves its slot to the next, and gets in line again'({ store }) {
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
