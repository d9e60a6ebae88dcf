import assert from 'node:assert/strict'
import type { Result } from '@gantry/contract'
import {
  type Cases,
  claimOne,
  idsOf,
  loseOne,
  manyCalls,
  mine,
  someCall,
  someEnding,
  someResult,
  theirs,
} from './samples.ts'

const slot = { key: 's', limit: 1 }

export const cancelling: Cases = {
  async 'a cancelled call that waits ends as cancelled with effect none'({ store, records }) {
    await store.submit([someCall('c', { callback: 'https://example.com/' })])
    assert.equal(await store.cancel('c', 'acme'), 'ended')
    assert.deepEqual(await store.claim(10, mine), [])
    const { results, attempts, audit, outbox } = await records()
    assert.deepEqual(
      results.map(({ callId, status, code }) => [callId, status, code]),
      [['c', 'cancelled', 'CANCELLED']],
    )
    const { error, status }: Result = JSON.parse(results[0]?.text ?? '')
    assert.deepEqual([status, error?.code, error?.effect], ['cancelled', 'CANCELLED', 'none'])
    assert.deepEqual(attempts, [])
    assert.deepEqual(
      audit.map(({ phase, code }) => [phase, code]),
      [['end', 'CANCELLED']],
    )
    assert.equal(outbox.length, 1)
  },

  async 'a delayed, a released and a slot-waiting call end when they are cancelled'({ store }) {
    await store.submit([someCall('back')])
    await store.release([{ ...(await claimOne(store)), delayMs: 5_000 }])
    await store.submit([someCall('delayed', { delayMs: 5_000 }), someCall('one', { slot }), someCall('two', { slot })])
    for (const callId of ['back', 'delayed', 'two']) assert.equal(await store.cancel(callId, 'acme'), 'ended')
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['one'])
  },

  async 'extend() reports a cancellation to the worker with the lease, which ends the call'({ store, other, records }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    assert.equal(await other.cancel('c', 'acme'), 'asked')
    assert.equal(await other.cancel('c', 'acme'), 'asked')
    assert.deepEqual(await store.begin([claim]), ['c'])
    assert.deepEqual(await store.extend([claim], 10_000), { lost: [], cancelled: ['c'] })
    assert.deepEqual(await store.finish([someEnding(claim, { result: someResult('c', { status: 'ok' }) })]), ['c'])
    assert.deepEqual(
      (await records()).results.map(({ status }) => status),
      ['ok'],
    )
  },

  async 'the next claim reports a cancellation after the call was released or its worker was lost'(fixture) {
    const { store } = fixture
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    assert.equal(claim.cancelled, false)
    await store.cancel('c', 'acme')
    await store.release([claim])
    assert.equal((await claimOne(store)).cancelled, true)
    await fixture.pass(11_000)
    await store.reclaim({ max: 10 })
    assert.equal((await claimOne(store)).cancelled, true)
  },

  async 'a cancelled call whose worker was lost is left to the next claim'(fixture) {
    const { store } = fixture
    for (const begin of [true, false]) {
      await store.submit([someCall(`c${begin}`)])
      const late = await loseOne(fixture, begin)
      assert.equal(await store.cancel(`c${begin}`, 'acme'), 'asked')
      const claim = await claimOne(store)
      assert.deepEqual([claim.cancelled, claim.begun, claim.fence], [true, begin, late.fence + 1])
      await store.finish([someEnding(claim)])
    }
  },

  async 'cancelling an ended call does not change its outcome'({ store, records }) {
    await store.submit([someCall('a'), someCall('b')])
    const [a] = await store.claim(1, mine)
    assert.ok(a !== undefined)
    await store.finish([someEnding(a)])
    await store.cancel('b', 'acme')
    assert.equal(await store.cancel('a', 'acme'), 'finished')
    assert.equal(await store.cancel('b', 'acme'), 'finished')
    const { results } = await records()
    assert.deepEqual(
      results.map(({ callId, status }) => [callId, status]),
      [
        ['a', 'ok'],
        ['b', 'cancelled'],
      ],
    )
  },

  async 'cancelling an unknown call, or one of another tenant, returns absent and changes nothing'({ store }) {
    await store.submit([someCall('c'), someCall('d')])
    const [c] = await store.claim(1, mine)
    assert.ok(c !== undefined)
    for (const callId of ['c', 'd', 'missing', '', 'c\0', '\ud800']) {
      assert.equal(await store.cancel(callId, 'other'), 'absent')
    }
    assert.equal(await store.cancel('missing', 'acme'), 'absent')
    assert.deepEqual(await store.extend([c], 10_000), { lost: [], cancelled: [] })
    assert.equal((await claimOne(store)).cancelled, false)
    await store.finish([someEnding(c)])
    assert.equal(await store.cancel('c', 'other'), 'absent')
  },

  async 'concurrent cancels, claims and completions leave each call with one outcome'({ store, other, records }) {
    const calls = manyCalls(60)
    await store.submit(calls)
    const work = async (): Promise<void> => {
      for (let claims = await other.claim(5, theirs); claims.length > 0; claims = await other.claim(5, theirs)) {
        await other.finish(claims.map((claim) => someEnding(claim)))
      }
    }
    const cancels = Promise.all(calls.map(({ callId }) => store.cancel(callId, 'acme')))
    const [fates] = await Promise.all([cancels, work(), work()])
    await work()
    const { results, audit } = await records()
    assert.deepEqual(
      results.map(({ callId }) => callId).sort(),
      calls.map(({ callId }) => callId),
    )
    const ended = calls.filter((_, index) => fates[index] === 'ended').map(({ callId }) => callId)
    const cancelled = results.filter(({ status }) => status === 'cancelled').map(({ callId }) => callId)
    assert.deepEqual(cancelled.sort(), ended)
    assert.equal(audit.filter(({ phase }) => phase === 'end').length, 60)
  },
}
