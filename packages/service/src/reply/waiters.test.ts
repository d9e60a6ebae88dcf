import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWaiters, type Outcome } from './waiters.ts'

const outcome = { status: 'ok' } as unknown as Outcome
const never = new AbortController().signal
const of = (tenant: string) => ({ tenant, principal: 'ada' })

test('everyone who waits for a call hears of its outcome', async () => {
  const waiters = createWaiters(async () => new Map())
  const all = Promise.all([waiters.wait('a', 10_000, never), waiters.wait('a', 10_000, never)])
  waiters.tell('a', outcome)
  assert.deepEqual(await all, [outcome, outcome])
  assert.equal(waiters.size, 0)
})

test('a wait ends when its time is over or its signal aborts, and leaves nothing behind', async () => {
  const waiters = createWaiters(async () => new Map())
  const stop = new AbortController()
  const [late, aborted] = [waiters.wait('a', 1, never), waiters.wait('b', 10_000, stop.signal)]
  stop.abort()
  assert.deepEqual(await Promise.all([late, aborted]), [undefined, undefined])
  assert.equal(await waiters.wait('c', 10_000, stop.signal), undefined)
  assert.equal(waiters.size, 0)
})

test('of the calls that ended elsewhere only those that are waited for are read', async () => {
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

test('a look finds what was not heard of, and a failed read is repaired by the next', async () => {
  let up = false
  const waiters = createWaiters(async (callIds) => {
    if (!up) throw new Error('away')
    return new Map(callIds.map((callId) => [callId, outcome]))
  })
  const waiting = waiters.wait('a', 10_000, never)
  waiters.ended(['a'])
  await assert.rejects(waiters.look(), /away/)
  up = true
  await waiters.look()
  assert.equal(await waiting, outcome)
})

test('an outcome that comes before its waiter is kept for him, once, if he was expected', () => {
  const waiters = createWaiters(async () => new Map())
  waiters.expect('a', of('acme'))
  waiters.tell('a', outcome)
  waiters.tell('b', outcome)
  waiters.ended(['a'])
  assert.equal(waiters.expected('a', of('other')), undefined, 'not for another tenant')
  assert.equal(waiters.expected('a', { ...of('acme'), principal: 'bob' }), undefined, 'not for another principal')
  assert.equal(waiters.expected('a', { ...of('acme'), tools: ['x:*'] }), undefined, 'not for one who is bound')
  assert.equal(waiters.expected('a', of('acme'))?.outcome, outcome)
  assert.equal(waiters.expected('a', of('acme')), undefined)
  assert.equal(waiters.expected('b', of('acme')), undefined)
})

test('one who was expected and comes too late to hear of the end is told to look for himself', () => {
  const waiters = createWaiters(async () => new Map())
  waiters.expect('a', of('acme'))
  waiters.expect('b', of('acme'))
  waiters.ended(['a'])
  assert.equal(waiters.expected('a', of('acme')), undefined)
  assert.ok(waiters.expected('b', of('acme')), 'this one will hear')
})

test('what is kept for those who never come is bounded', () => {
  const waiters = createWaiters(async () => new Map())
  for (let n = 0; n < 3_000; n++) {
    waiters.expect(`c${n}`, of('acme'))
    waiters.tell(`c${n}`, outcome)
  }
  assert.equal(waiters.expected('c0', of('acme')), undefined)
  assert.equal(waiters.expected('c2999', of('acme'))?.outcome, outcome)
})
