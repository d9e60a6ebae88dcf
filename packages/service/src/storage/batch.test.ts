import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBatch } from './batch.ts'

test('items of one event-loop turn go into one batch, and items added while it runs into the next', async () => {
  const batches: number[][] = []
  const gate = Promise.withResolvers<void>()
  const batch = createBatch<number, number>(async (items) => {
    batches.push([...items])
    if (batches.length === 1) await gate.promise
    return items.map((item) => item * 2)
  })
  const first = [batch.add(1), batch.add(2)]
  await new Promise((resolve) => setImmediate(resolve))
  const later = [batch.add(3), batch.add(4), batch.add(5)]
  assert.equal(batch.size, 5)
  gate.resolve()
  assert.deepEqual(await Promise.all([...first, ...later]), [2, 4, 6, 8, 10])
  assert.deepEqual(batches, [
    [1, 2],
    [3, 4, 5],
  ])
  assert.equal(batch.size, 0)
})

test('a batch has at most `most` items, and its failure rejects only its own items', async () => {
  const batch = createBatch<number, number>(
    async (items) => {
      if (items.includes(3)) throw new Error('no')
      return items
    },
    { most: 2 },
  )
  const all = await Promise.allSettled([1, 2, 3, 4, 5].map((item) => batch.add(item)))
  assert.deepEqual(
    all.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'rejected', 'fulfilled'],
  )
})

test('at most `atOnce` batches run concurrently', async () => {
  let running = 0
  let most = 0
  const batch = createBatch<number, number>(
    async (items) => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
      return items
    },
    { most: 1, atOnce: 3 },
  )
  await Promise.all([1, 2, 3, 4, 5, 6].map((item) => batch.add(item)))
  assert.equal(most, 3)
})

test('an item added to an idle batch runs at once; items added while it runs are collected until the turn ends', async () => {
  const batches: number[][] = []
  const batch = createBatch<number, number>(
    async (items) => {
      batches.push([...items])
      await new Promise((resolve) => setTimeout(resolve, 5))
      return items
    },
    { atOnce: 2 },
  )
  const all = [batch.add(1)]
  await Promise.resolve()
  assert.deepEqual(batches, [[1]])
  all.push(batch.add(2))
  await Promise.resolve()
  all.push(batch.add(3))
  assert.deepEqual(batches, [[1]])
  await Promise.all(all)
  assert.deepEqual(batches, [[1], [2, 3]])
})
