import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { follow, within } from './abort.ts'

test('follow aborts with the first source that aborts, and with its reason', () => {
  const sources = [new AbortController(), new AbortController()]
  const { signal } = follow(...sources.map((each) => each.signal))
  assert.equal(signal.aborted, false)
  sources[1]?.abort('second')
  sources[0]?.abort('first')
  assert.equal(signal.reason, 'second')
})

test('follow returns an aborted signal when a source is already aborted', () => {
  const { signal } = follow(new AbortController().signal, AbortSignal.abort('before'))
  assert.equal(signal.reason, 'before')
})

test('follow leaves no listener on its sources after leave or abort', () => {
  const [kept, ended] = [new AbortController(), new AbortController()]
  const left = follow(kept.signal, ended.signal)
  left.leave()
  ended.abort()
  assert.equal(left.signal.aborted, false)
  follow(kept.signal, ended.signal)
  const fired = new AbortController()
  follow(kept.signal, fired.signal)
  fired.abort()
  assert.equal(getEventListeners(kept.signal, 'abort').length, 0)
})

test('work that ends in time gives its result, and its failure is thrown', async () => {
  const never = (): never => assert.fail('late')
  assert.equal(await within(60_000, Promise.resolve(1), never), 1)
  await assert.rejects(within(60_000, Promise.reject(new Error('broken')), never), /broken/)
})

test('when time is up, the result is that of the function for it, or what it throws', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const hanging = new Promise<number>(() => undefined)
  const late = within(10, hanging, () => 'late')
  const thrown = within(10, hanging, () => assert.fail('too late'))
  t.mock.timers.tick(10)
  assert.equal(await late, 'late')
  await assert.rejects(thrown, /too late/)
})
