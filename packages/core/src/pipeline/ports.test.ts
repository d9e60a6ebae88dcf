import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { systemClock } from './ports.ts'

test('the iso function of the clock formats every time like Date, in any order of times', () => {
  const { iso } = systemClock()
  const time = fc.integer({ min: 0, max: 253_402_300_000_000 })
  fc.assert(
    fc.property(fc.array(time), fc.array(fc.nat(200_000)), (times, steps) => {
      const near = steps.map((step) => (times[0] ?? 0) + step)
      for (const ms of [...times, ...near]) assert.equal(iso(ms), new Date(ms).toISOString())
    }),
  )
})

test('the wall time of the clock stays within 2 ms of Date.now', () => {
  const { now, monotonic } = systemClock()
  for (let reading = 0; reading < 1_000; reading++) {
    const before = Date.now()
    const read = now(monotonic())
    const after = Date.now()
    // Both clocks round to milliseconds at different points.
    assert.ok(read >= before - 2 && read <= after + 2, `${read} between ${before} and ${after}`)
  }
})
