import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Claim } from './call-store.ts'
import { createBegin, createDatabaseClock, stillHeld } from './lease-time.ts'

const claims = ['a', 'b'].map((callId) => ({ callId, fence: 1 }) as Claim)
const leaseMs = 1_000

function clock(...times: number[]): () => number {
  return () => times.shift() ?? 0
}

test('stillHeld accepts claims that arrived early in their lease without a query', async () => {
  const store = { extend: () => assert.fail('asked') }
  assert.equal(await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(400) }), claims)
})

test('stillHeld extends claims that arrived late, and drops those that the store no longer leases to this worker', async () => {
  const store = { extend: async () => ({ lost: ['a'], cancelled: [] }) }
  const held = await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 710) })
  assert.deepEqual(held, [claims[1]])
})

test('stillHeld extends again when the answer to the extension arrived late too', async () => {
  const answers = [[], ['b']]
  const store = { extend: async () => ({ lost: answers.shift() ?? [], cancelled: [] }) }
  const held = await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 1_500, 1_500, 1_510) })
  assert.deepEqual([held, answers], [[claims[0]], []])
})

test('stillHeld drops late claims when the store is unavailable', async () => {
  const store = { extend: () => Promise.reject(new Error('unavailable')) }
  assert.deepEqual(await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 710) }), [])
})

test('a worker that was suspended during begin checks its leases again, and does not run a call that it lost', async () => {
  let time = 0
  let standsMs = 0
  const store = {
    async begin(holders: readonly { callId: string }[]) {
      time += standsMs
      return holders.map(({ callId }) => callId)
    },
    extend: async () => ({ lost: ['b'], cancelled: [] }),
  }
  const begin = createBegin(store, { leaseMs: 1_000, now: () => time })
  const both = () => Promise.all(['a', 'b'].map((callId) => begin({ callId, fence: 1 })))
  assert.deepEqual(await both(), [true, true], 'a quick answer needs no check')
  standsMs = 600
  assert.deepEqual(await both(), [true, false])
})

test('the database clock is as exact as the fastest answer, and follows a change of the database’s time', async () => {
  let time = 0
  const clock = createDatabaseClock(
    () => time,
    () => 999,
  )
  const learn = (takesMs: number, at: number): Promise<void> =>
    clock.learn(async () => {
      time += takesMs
      return new Date(at)
    })
  assert.equal(clock.now(), 999, 'the clock of the machine until the first answer')
  await learn(100, 1_000_000)
  assert.equal(clock.now(), 1_000_050)
  await learn(2, 1_000_060)
  assert.equal(clock.now(), 1_000_061)
  await learn(3_000, 1_000_062)
  assert.equal(clock.now(), 1_003_061, 'a slow answer that agrees with the estimate moved the clock')
  await learn(100, 2_000_000)
  assert.equal(clock.now(), 2_000_050)
  await assert.rejects(clock.learn(() => Promise.reject(new Error('unavailable'))))
})
