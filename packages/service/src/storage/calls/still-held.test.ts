import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Claim } from './call-store.ts'
import { createBegin, stillHeld } from './still-held.ts'

const claims = ['a', 'b'].map((callId) => ({ callId, fence: 1 }) as Claim)
const leaseMs = 1_000

function clock(...times: number[]): () => number {
  return () => times.shift() ?? 0
}

test('claims that were answered soon are ours without asking', async () => {
  const store = { extend: () => assert.fail('asked') }
  assert.equal(await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(400) }), claims)
})

test('of claims that were long on their way, those count that the store still knows as ours', async () => {
  const store = { extend: async () => ({ lost: ['a'], cancelled: [] }) }
  const held = await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 710) })
  assert.deepEqual(held, [claims[1]])
})

test('an answer that was long on its way, too, is asked for again', async () => {
  const answers = [[], ['b']]
  const store = { extend: async () => ({ lost: answers.shift() ?? [], cancelled: [] }) }
  const held = await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 1_500, 1_500, 1_510) })
  assert.deepEqual([held, answers], [[claims[0]], []])
})

test('what the store cannot tell is left to the lease', async () => {
  const store = { extend: () => Promise.reject(new Error('away')) }
  assert.deepEqual(await stillHeld(store, claims, { askedAt: 0, leaseMs, now: clock(700, 700, 710) }), [])
})

test('a worker that stood still while it began checks that it still holds the call, and does not run one that it lost', async () => {
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
  assert.deepEqual(await both(), [true, true], 'nothing is asked while the answer is quick')
  standsMs = 600
  assert.deepEqual(await both(), [true, false])
})
