import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { createBell } from './wake-signal.ts'

const { signal } = new AbortController()
const forEver = 2 ** 30

test('a ring wakes the one who waits', async () => {
  const bell = createBell()
  const waiting = bell.wait(forEver, signal)
  bell.ring()
  await waiting
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('a ring that nobody waited for ends the next wait, and no other', async () => {
  const bell = createBell()
  bell.ring()
  bell.ring()
  await bell.wait(forEver, signal)
  let woken = false
  const second = bell.wait(forEver, signal).then(() => {
    woken = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(woken, false)
  bell.ring()
  await second
})

test('a wait ends with its time and with its signal', async () => {
  const bell = createBell()
  await bell.wait(1, signal)
  const controller = new AbortController()
  const waiting = bell.wait(forEver, controller.signal)
  controller.abort()
  await waiting
  await bell.wait(forEver, controller.signal)
})
