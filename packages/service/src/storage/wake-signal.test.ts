import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { createWakeSignal } from './wake-signal.ts'

const { signal } = new AbortController()
const forEver = 2 ** 30

test('ring() wakes the waiter', async () => {
  const wakeSignal = createWakeSignal()
  const waiting = wakeSignal.wait(forEver, signal)
  wakeSignal.ring()
  await waiting
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('ring() without a waiter ends the next wait and no later one', async () => {
  const wakeSignal = createWakeSignal()
  wakeSignal.ring()
  wakeSignal.ring()
  await wakeSignal.wait(forEver, signal)
  let woken = false
  const second = wakeSignal.wait(forEver, signal).then(() => {
    woken = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(woken, false)
  wakeSignal.ring()
  await second
})

test('wait() ends at its timeout and when its signal is aborted', async () => {
  const wakeSignal = createWakeSignal()
  await wakeSignal.wait(1, signal)
  const controller = new AbortController()
  const waiting = wakeSignal.wait(forEver, controller.signal)
  controller.abort()
  await waiting
  await wakeSignal.wait(forEver, controller.signal)
})
