import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlots, declaredShare, ownShare } from './slots.ts'

const never = new AbortController().signal

test('at most the given number of holders run at once, and waiters follow in order', async () => {
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

test('a cancelled waiter leaves the queue and takes no slot', async () => {
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

test('waiting tenants are served round-robin, so a long queue of one does not delay the first call of another', async () => {
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

test('a tenant is limited to its share of the slots of a key, even when no other tenant asks', async () => {
  const slots = createSlots({ share: ownShare })
  const now = (tenant: string) => slots.takeNow('key', 4, tenant)
  const held = [now('a'), now('a'), now('a')]
  assert.equal(now('a'), undefined, 'three are its share')
  const waiting = slots.take('key', 4, never, 'a')
  let entered = false
  void waiting.then(() => {
    entered = true
  })
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

test('a tenant gets at least one slot, and leaves one free when there are two or more', () => {
  for (const [size, share] of [
    [1, 1],
    [2, 1],
    [3, 2],
    [5, 3],
    [8, 6],
  ] as const) {
    const slots = createSlots({ share: ownShare })
    const taken = Array.from({ length: size }, () => slots.takeNow('key', size, 'a')).filter(Boolean)
    assert.equal(taken.length, share, `of ${size}`)
    assert.equal(slots.takeNow('key', size, 'b') !== undefined, size > 1, `another one of ${size}`)
  }
})

test('of a declared limit a tenant gets three quarters, and all of a limit below four or as the only tenant', () => {
  const shares = [1, 2, 3, 4, 5, 8, 10, 100].map((size) => declaredShare(size, 'acme'))
  assert.deepEqual(shares, [1, 2, 3, 3, 4, 6, 8, 75])
  assert.deepEqual(
    ['local', 'default'].map((tenant) => declaredShare(8, tenant)),
    [8, 8],
  )
})
