import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlots } from './slots.ts'

const never = new AbortController().signal

test('no more holders than slots run at once, and the rest follow in order', async () => {
  const slots = createSlots()
  const order: number[] = []
  let running = 0
  let most = 0
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const release = await slots.take('key', 3, never)
      order.push(index)
      most = Math.max(most, ++running)
      await Promise.resolve()
      running -= 1
      release()
      release()
    }),
  )
  assert.equal(most, 3)
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  )
})

test('keys do not wait for each other', async () => {
  const slots = createSlots()
  await slots.take('a', 1, never)
  await slots.take('b', 1, never)
})

test('a waiter that is cancelled leaves the queue and takes no slot', async () => {
  const slots = createSlots()
  const release = await slots.take('key', 1, never)
  const controller = new AbortController()
  const waiting = slots.take('key', 1, controller.signal)
  const next = slots.take('key', 1, never)
  controller.abort(new Error('gone'))
  await assert.rejects(waiting, /gone/)
  release()
  ;(await next)()
  await slots.take('key', 1, never)
})

test('tenants take turns, so that one with many waiting calls does not push back the first of another', async () => {
  const slots = createSlots()
  const release = await slots.take('key', 1, never, 'acme')
  const order: string[] = []
  const wait = async (tenant: string, name: string): Promise<void> => {
    const leave = await slots.take('key', 1, never, tenant)
    order.push(name)
    leave()
  }
  const leaving = new AbortController()
  const left = slots.take('key', 1, leaving.signal, 'gone')
  const all = [1, 2, 3, 4].map((number) => wait('acme', `a${number}`))
  all.push(wait('other', 'o1'), wait('other', 'o2'), wait('third', 't1'))
  leaving.abort(new Error('gone'))
  await assert.rejects(left, /gone/)
  release()
  await Promise.all(all)
  assert.deepEqual(order, ['a1', 'o1', 't1', 'a2', 'o2', 'a3', 'a4'])
})

test('a tenant has all slots of a key while it is alone, and its share once another one has asked for any', async () => {
  const slots = createSlots({ share: 0.75 })
  const now = (tenant: string, key = 'key') => slots.takeNow(key, 4, tenant)
  const held = [now('a'), now('a'), now('a'), now('a')]
  assert.equal(now('a'), undefined)
  assert.ok(now('b', 'elsewhere'))
  const waiting = slots.take('key', 4, never, 'a')
  let entered = false
  void waiting.then(() => {
    entered = true
  })
  for (const release of held.splice(0, 1)) release?.()
  assert.equal(now('a'), undefined, 'three are its share')
  const other = now('b')
  assert.ok(other, 'what is left is for others, although a waits')
  other()
  await Promise.resolve()
  assert.equal(entered, false)
  assert.ok(now(''), 'work without a tenant has no share')
  for (const release of held.splice(0, 1)) release?.()
  await waiting
  assert.equal(now('b'), undefined)
})
