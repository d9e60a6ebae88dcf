import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mine, someCall } from '../conformance/call-store/samples.ts'
import { memoryCallStore } from '../storage/calls/memory.ts'
import { createUnansweredClaims } from './unanswered-claims.ts'

/** A store with a clock and pauses of the test: each pause ends when the next second begins. */
function storeAt(release?: (tries: number) => void) {
  let time = 1_000
  let tries = 0
  const store = memoryCallStore({ now: () => time })
  let resume = (): void => undefined
  const claims = createUnansweredClaims({
    store: {
      async release(holders) {
        release?.(++tries)
        await store.release(holders)
      },
    },
    now: () => time,
    pause: (_, signal) =>
      new Promise((resolve) => {
        resume = () => resolve(undefined)
        signal.addEventListener('abort', resume, { once: true })
      }),
  })
  const second = async (): Promise<void> => {
    await new Promise(setImmediate)
    time += 1_000
    resume()
    await new Promise(setImmediate)
  }
  return { store, claims, second, tries: () => tries }
}

test('a call whose submission with a claim got no answer can be claimed again, as a call that never began', async () => {
  const { store, claims, second } = storeAt((tries) => {
    if (tries === 1) throw new Error('The store does not answer.')
  })
  await store.submit([someCall('c', { effect: 'once' })], mine)
  claims.add([someCall('c')], { notAfter: 3_500 })
  await second()
  const [claim] = await store.claim(1, mine)
  assert.deepEqual([claim?.callId, claim?.fence, claim?.lost, claim?.begun], ['c', 2, 0, false])
  await claims.close()
})

test('a submission that commits after the first release is released too, and then the store is not queried any more', async () => {
  const { store, claims, second, tries } = storeAt()
  claims.add([someCall('c')], { notAfter: 2_500 })
  await second()
  await store.submit([someCall('c')], mine)
  await second()
  assert.equal((await store.claim(1, mine))[0]?.fence, 2)
  await second()
  const before = tries()
  await second()
  assert.equal(tries(), before)
  await store.extend([{ callId: 'c', fence: 2 }], 10_000).then(({ lost }) => assert.deepEqual(lost, []))
  await claims.close()
})
