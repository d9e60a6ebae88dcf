import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stub } from '../stub.fixture.ts'
import { createWaiters, type Outcome } from './waiters.ts'

const outcome = stub<Outcome>({ status: 'ok' })
const never = new AbortController().signal
const of = (tenant: string) => ({ tenant, principal: 'ada' })

test('every waiter of a call receives its outcome', async () => {
  const waiters = createWaiters(async () => new Map())
  const all = Promise.all([waiters.wait('a', 10_000, never), waiters.wait('a', 10_000, never)])
  waiters.tell('a', outcome)
  assert.deepEqual(await all, [outcome, outcome])
  assert.equal(waiters.size, 0)
})

test('a wait ends when it times out or its signal aborts, and leaves nothing behind', async () => {
  const waiters = createWaiters(async () => new Map())
  const stop = new AbortController()
  const [late, aborted] = [waiters.wait('a', 1, never), waiters.wait('b', 10_000, stop.signal)]
  stop.abort()
  assert.deepEqual(await Promise.all([late, aborted]), [undefined, undefined])
  assert.equal(await waiters.wait('c', 10_000, stop.signal), undefined)
  assert.equal(waiters.size, 0)
})

test('of the calls that ended elsewhere only those with waiters are read', async () => {
  const read: string[][] = []
  const waiters = createWaiters(async (callIds) => {
    read.push([...callIds])
    return new Map(callIds.map((callId) => [callId, outcome]))
  })
  const waiting = waiters.wait('b', 10_000, never)
  waiters.ended(['a', 'b', 'c'])
  assert.equal(await waiting, outcome)
  waiters.ended(['d'])
  assert.deepEqual(read, [['b']])
})

test('a poll finds an outcome without a notification, and the next one repairs a failed read', async () => {
  let up = false
  const waiters = createWaiters(async (callIds) => {
    if (!up) throw new Error('unavailable')
    return new Map(callIds.map((callId) => [callId, outcome]))
  })
  const waiting = waiters.wait('a', 10_000, never)
  waiters.ended(['a'])
  await assert.rejects(waiters.look(), /unavailable/)
  up = true
  await waiters.look()
  assert.equal(await waiting, outcome)
})

test('an outcome that precedes its waiter is kept for it, once, if the waiter was announced', () => {
  const waiters = createWaiters(async () => new Map())
  waiters.expect('a', of('acme'))
  waiters.tell('a', outcome)
  waiters.tell('b', outcome)
  waiters.ended(['a'])
  assert.equal(waiters.expected('a', of('other')), undefined, 'not for another tenant')
  assert.equal(waiters.expected('a', { ...of('acme'), principal: 'bob' }), undefined, 'not for another principal')
  assert.equal(
    waiters.expected('a', { ...of('acme'), tools: ['x:*'] }),
    undefined,
    'not for a caller restricted to other tools',
  )
  assert.equal(waiters.expected('a', of('acme'))?.outcome, outcome)
  assert.equal(waiters.expected('a', of('acme')), undefined)
  assert.equal(waiters.expected('b', of('acme')), undefined)
})

test('an announced waiter that misses the outcome reads it from the store', () => {
  const waiters = createWaiters(async () => new Map())
  waiters.expect('a', of('acme'))
  waiters.expect('b', of('acme'))
  waiters.ended(['a'])
  assert.equal(waiters.expected('a', of('acme')), undefined)
  assert.ok(waiters.expected('b', of('acme')), 'this one will be notified')
})

test('the number of outcomes kept for waiters that never arrive is bounded', () => {
  const waiters = createWaiters(async () => new Map())
  for (let n = 0; n < 3_000; n++) {
    waiters.expect(`c${n}`, of('acme'))
    waiters.tell(`c${n}`, outcome)
  }
  assert.equal(waiters.expected('c0', of('acme')), undefined)
  assert.equal(waiters.expected('c2999', of('acme'))?.outcome, outcome)
})
