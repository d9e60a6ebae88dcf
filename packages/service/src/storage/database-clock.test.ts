import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDatabaseClock } from './workers.ts'

test('the clock shows the time of the database, as exactly as the quickest answer says, and follows when it moves', async () => {
  let time = 0
  const clock = createDatabaseClock(
    () => time,
    () => 999,
  )
  const learn = (takesMs: number, at: number): Promise<void> =>
    clock.learn(async () => {
      time += takesMs
      return new Date(at)
    })
  assert.equal(clock.now(), 999, 'the clock of the machine until something is known')
  await learn(100, 1_000_000)
  assert.equal(clock.now(), 1_000_050)
  await learn(2, 1_000_060)
  assert.equal(clock.now(), 1_000_061)
  await learn(3_000, 1_000_062)
  assert.equal(clock.now(), 1_003_061, 'a slow answer moved what it does not contradict')
  await learn(100, 2_000_000)
  assert.equal(clock.now(), 2_000_050)
  await assert.rejects(clock.learn(() => Promise.reject(new Error('away'))))
})
