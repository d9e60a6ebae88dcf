import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createUnrecordedOutcomes } from './unrecorded-outcomes.ts'
import { memoryBus, someClaim } from './worker.fixture.ts'

const full = (): Promise<void> => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'full'))

/** Unrecorded outcomes with pauses that a test ends; `waiting` resolves with the next one. */
function holding() {
  const bus = memoryBus()
  let emptied = 0
  let next = Promise.withResolvers<() => void>()
  const held = createUnrecordedOutcomes({
    bus,
    now: () => new Date(0),
    random: () => 0,
    pause(_ms, signal) {
      const { promise, resolve } = Promise.withResolvers<void>()
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve())
      next.resolve(resolve)
      next = Promise.withResolvers()
      return promise
    },
    emptied: () => {
      emptied += 1
    },
  })
  return { held, bus, waiting: () => next.promise, emptied: () => emptied }
}

test('an outcome that cannot be stored is retried until it is recorded, and listed meanwhile', async () => {
  const { held, bus, waiting, emptied } = holding()
  let fails = 3
  const pausing = waiting()
  const recorded = held.record(someClaim(), () => (fails-- > 0 ? full() : Promise.resolve()))
  let resume = await pausing
  const { reason, ...about } = held.list()[0] ?? {}
  assert.deepEqual(
    [held.size, about],
    [1, { callId: 'c-1', tool: 'test:it:1.0.0', tenant: 'acme', since: new Date(0).toISOString(), tries: 1 }],
  )
  assert.match(String(reason), /STORE_UNAVAILABLE: full/)
  for (let tries = 2; tries <= 3; tries += 1) {
    const again = waiting()
    resume()
    resume = await again
    assert.equal(held.list()[0]?.tries, tries)
  }
  assert.equal(emptied(), 0)
  resume()
  await recorded
  assert.deepEqual(
    [held.size, emptied(), bus.received.map(({ name }) => name)],
    [0, 1, ['outcome:held', 'outcome:recorded']],
  )
})

test('a worker that stops tries once more and then reports the lost outcome', async () => {
  const { held, bus, waiting } = holding()
  let tries = 0
  const pausing = waiting()
  const recorded = held.record(someClaim(), () => {
    tries += 1
    return full()
  })
  await pausing
  held.giveUp()
  await recorded
  assert.deepEqual([tries, held.size], [2, 0])
  const [, lost] = bus.received
  assert.deepEqual([lost?.name, (lost?.event as { callId?: string } | undefined)?.callId], ['outcome:lost', 'c-1'])
})

test('a failed release is retried too, and is not listed as an outcome', async () => {
  const { held, bus, waiting } = holding()
  let fails = 1
  const pausing = waiting()
  const released = held.release(someClaim(), () => (fails-- > 0 ? full() : Promise.resolve()))
  const resume = await pausing
  assert.equal(held.size, 0)
  resume()
  await released
  assert.deepEqual(bus.received, [])
})
