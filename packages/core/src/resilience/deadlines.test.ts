import assert from 'node:assert/strict'
import { afterEach, beforeEach, mock, test } from 'node:test'
import fc from 'fast-check'
import { createDeadlines, type Waiter } from './deadlines.ts'

/** A manual clock with timers. */
let time = 0
beforeEach(() => {
  time = 0
  mock.timers.enable({ apis: ['setTimeout'] })
})
afterEach(() => mock.timers.reset())

function pass(ms: number): void {
  for (let step = 0; step < ms; step++) {
    time += 1
    mock.timers.tick(1)
  }
}

class Probe implements Waiter {
  wait: Waiter['wait']
  expiredAt: number | undefined
  expire(): void {
    this.expiredAt = time
  }
}

test('each waiter expires after its own timeout, for any mix of timeouts', () => {
  const event = fc.record({
    after: fc.nat(20),
    ms: fc.constantFrom(5, 10, 10, 30),
    leave: fc.option(fc.nat(40), { nil: undefined }),
  })
  fc.assert(
    fc.property(fc.array(event, { maxLength: 20 }), (events) => {
      mock.timers.reset()
      mock.timers.enable({ apis: ['setTimeout'] })
      time = 0
      const deadlines = createDeadlines<Probe>(() => time)
      const plan = events.map(({ after, ms, leave }) => ({
        probe: new Probe(),
        start: after,
        ms,
        leave: leave && after + leave,
      }))
      for (let tick = 0; tick <= 80; tick++) {
        for (const { probe, start, ms, leave } of plan) {
          if (start === tick) deadlines.add(probe, ms)
          if (leave === tick && leave >= start) deadlines.delete(probe)
        }
        pass(1)
      }
      for (const { probe, start, ms, leave } of plan) {
        const left = leave !== undefined && leave >= start && leave < start + ms - 1
        if (left) assert.equal(probe.expiredAt, undefined)
        else if (leave === undefined)
          assert.ok(probe.expiredAt !== undefined && Math.abs(probe.expiredAt - start - ms) <= 1)
      }
      assert.deepEqual(deadlines.waiters(), [])
    }),
  )
})

test('adding a waiter again replaces its deadline', () => {
  const deadlines = createDeadlines<Probe>(() => time)
  const probe = new Probe()
  deadlines.add(probe, 5)
  deadlines.add(probe, 50)
  assert.deepEqual(deadlines.waiters(), [probe])
  pass(20)
  assert.equal(probe.expiredAt, undefined)
  pass(40)
  assert.equal(probe.expiredAt, 50)
})

test('a waiter that adds another while it expires does not affect the other waiters', () => {
  const deadlines = createDeadlines<Probe>(() => time)
  const [first, second, third] = [new Probe(), new Probe(), new Probe()]
  first.expire = () => deadlines.add(third, 10)
  deadlines.add(first, 10)
  deadlines.add(second, 10)
  pass(11)
  assert.equal(second.expiredAt, 10)
  pass(11)
  assert.ok(third.expiredAt !== undefined && Math.abs(third.expiredAt - 20) <= 1)
})

test('thousands of distinct timeouts leave no timer after their waiters are deleted', () => {
  const deadlines = createDeadlines<Probe>()
  mock.timers.reset()
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  for (let ms = 1_000; ms < 6_000; ms++) {
    const probe = new Probe()
    deadlines.add(probe, ms)
    deadlines.delete(probe)
  }
  const after = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  assert.equal(after, before)
})
