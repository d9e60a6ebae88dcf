import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { follow } from './abort.ts'

test('it aborts with the first of its sources, with that one’s reason', () => {
  const sources = [new AbortController(), new AbortController()]
  const { signal } = follow(...sources.map((each) => each.signal))
  assert.equal(signal.aborted, false)
  sources[1]?.abort('second')
  sources[0]?.abort('first')
  assert.equal(signal.reason, 'second')
})

test('it is aborted from the start when a source is', () => {
  const { signal } = follow(new AbortController().signal, AbortSignal.abort('before'))
  assert.equal(signal.reason, 'before')
})

test('after the end nothing of it is left at its sources', () => {
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
