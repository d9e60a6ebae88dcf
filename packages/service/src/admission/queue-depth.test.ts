import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createQueueDepth } from './counted-slots.ts'

test('below the limit no call waits for a count, and calls admitted since the last count are counted locally', async () => {
  let [time, stored, looks] = [0, 0, 0]
  const depth = async (): Promise<number> => {
    looks += 1
    return stored
  }
  const gauge = createQueueDepth(
    { depth },
    () => 3,
    () => time,
  )
  assert.equal(await gauge.look(), 0)
  assert.equal(gauge.full(), undefined)
  const places = await Promise.all(Array.from({ length: 10 }, () => gauge.take()))
  const taken = places.filter((place) => place !== undefined)
  assert.equal(taken.length, 3)
  assert.equal(await gauge.full(), true)
  assert.equal(looks, 1, 'a crowd is refused without a look for each')
  for (const place of taken) place.keep()
  time = 100
  assert.equal(await gauge.full(), false, 'all of them were claimed meanwhile')
  stored = 7
  assert.equal(await gauge.look(), 7)
  assert.equal(await gauge.full(), true)
})

test('a full queue stays full while the count fails', async () => {
  let [time, unavailable] = [0, false]
  const depth = async (): Promise<number> => {
    if (unavailable) throw new Error('unavailable')
    return 5
  }
  const gauge = createQueueDepth(
    { depth },
    () => 5,
    () => time,
  )
  await gauge.look()
  ;[time, unavailable] = [5_000, true]
  assert.equal(await gauge.full(), true)
  await assert.rejects(gauge.take(), /unavailable/)
  ;[time, unavailable] = [5_000, false]
  assert.equal(await gauge.take(), undefined)
})
