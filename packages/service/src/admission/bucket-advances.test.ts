import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { createAdvances } from './bucket-advances.ts'
import { type Buckets, type Draw, type Drawn, drawsOf, type Refund } from './buckets/bucket.ts'

/** Buckets on a clock that the test sets, with a count of their draws. */
function bucketsIn(now: () => number): Pick<Buckets, 'draw' | 'give'> & { asked: number } {
  const kept = new Map<string, { tokens: number; at: number }>()
  const one = ({ key, capacity, perMs, least, most }: Draw): Drawn => {
    const { tokens, at } = kept.get(key) ?? { tokens: capacity, at: now() }
    const there = Math.min(capacity, tokens + (now() - at) * perMs)
    const taken = there < least ? 0 : Math.min(most, Math.floor(there))
    kept.set(key, { tokens: there - taken, at: now() })
    return { tokens: taken, waitMs: taken > 0 ? 0 : (least - there) / perMs }
  }
  const buckets = {
    asked: 0,
    async draw(draws: readonly Draw[]) {
      buckets.asked += 1
      return draws.map(one)
    },
    async give(refunds: readonly Refund[]) {
      drawsOf(refunds).map(one)
    },
  }
  return buckets
}

/** Advances on a clock that stands still. */
function advancesAtZero() {
  return createAdvances(
    bucketsIn(() => 0),
    () => 0,
  )
}

test('advances serve most calls without the store, and repeat a refusal until the bucket can refill', async () => {
  let time = 0
  const buckets = bucketsIn(() => time)
  const advances = createAdvances(buckets, () => time)
  const allowance = { key: 'k', capacity: 1_000, perMs: 1 }
  for (let n = 0; n < 1_000; n++) assert.equal(await advances.take(allowance, 1), 0)
  assert.ok(buckets.asked <= 20, `${buckets.asked} draws for a thousand calls`)
  const before = buckets.asked
  for (let n = 0; n < 1_000; n++) assert.ok((await advances.take(allowance, 1)) > 0)
  assert.ok(buckets.asked <= before + 1, 'a flood is refused without a draw')
  time += 50
  assert.equal(await advances.take(allowance, 1), 0)
})

test('in any span of time the calls that pass take at most the capacity and the refill of that span plus half a second', async () => {
  const steps = fc.array(fc.record({ pass: fc.nat(400), process: fc.nat(2), tokens: fc.integer({ min: 1, max: 4 }) }), {
    maxLength: 120,
    size: 'max',
  })
  const rates = fc.record({ perMs: fc.constantFrom(0.002, 0.01, 0.1), capacity: fc.integer({ min: 4, max: 40 }) })
  await fc.assert(
    fc.asyncProperty(rates, steps, async ({ perMs, capacity }, events) => {
      let time = 0
      const buckets = bucketsIn(() => time)
      const processes = Array.from({ length: 3 }, () => createAdvances(buckets, () => time))
      const passed: { at: number; tokens: number }[] = []
      for (const { pass, process, tokens } of events) {
        time += pass
        const waitMs = await processes[process]?.take({ key: 'k', capacity, perMs }, tokens)
        if (waitMs === 0) passed.push({ at: time, tokens })
      }
      passed.forEach(({ at: from }, first) => {
        let sum = 0
        for (const { at, tokens } of passed.slice(first)) {
          sum += tokens
          assert.ok(sum <= capacity + perMs * (at - from + 500) + 1e-6, `${sum} within ${at - from} ms`)
        }
      })
    }),
    { numRuns: 60 },
  )
})

test('concurrent calls share one draw from the store, and each gets its tokens or a time to retry', async () => {
  const buckets = bucketsIn(() => 0)
  const advances = createAdvances(buckets, () => 0)
  const waits = await Promise.all(
    Array.from({ length: 30 }, () => advances.take({ key: 'k', capacity: 20, perMs: 0.01 }, 1)),
  )
  assert.equal(waits.filter((waitMs) => waitMs === 0).length, 20)
  assert.ok(waits.every((waitMs) => waitMs === 0 || waitMs >= 1))
  assert.ok(buckets.asked <= 2)
})

test('a call that asks for more tokens than are left does not block smaller calls', async () => {
  const advances = advancesAtZero()
  const allowance = { key: 'k', capacity: 10, perMs: 0.001 }
  assert.equal(await advances.take(allowance, 7), 0)
  assert.equal(await advances.take(allowance, 5), 2_000)
  assert.equal(await advances.take(allowance, 3), 0)
  assert.ok((await advances.take(allowance, 1)) > 0)
})

test('tokens that are given back serve the next call', async () => {
  const advances = advancesAtZero()
  const allowance = { key: 'k', capacity: 5, perMs: 0.001 }
  assert.equal(await advances.take(allowance, 5), 0)
  advances.giveBack(allowance, 5)
  assert.equal(await advances.take(allowance, 5), 0)
})

test('tokens that are given back late return to the shared bucket, for every process, and only once', async () => {
  let time = 0
  const buckets = bucketsIn(() => 0)
  const [here, elsewhere] = [createAdvances(buckets, () => time), createAdvances(buckets, () => time)]
  const allowance = { key: 'k', capacity: 5, perMs: 0.000_001 }
  assert.equal(await here.take(allowance, 5), 0)
  assert.ok((await elsewhere.take(allowance, 5)) > 1_000_000)
  time = 20_000
  here.giveBack(allowance, 5)
  time = 40_000
  assert.equal(await elsewhere.take(allowance, 5), 0)
  assert.ok((await here.take(allowance, 5)) > 1_000_000)
  elsewhere.giveBack(allowance, 2)
  assert.ok((await elsewhere.take(allowance, 3)) > 0)
  assert.equal(await elsewhere.take(allowance, 2), 0)
})

test('tokens whose return fails are lost, and do not block a take', async () => {
  const { draw } = bucketsIn(() => 0)
  const give = () => Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Redis cannot be reached.'))
  const advances = createAdvances({ draw, give }, () => 0)
  const allowance = { key: 'k', capacity: 5, perMs: 0.001 }
  assert.equal(await advances.take(allowance, 2), 0)
  advances.giveBack(allowance, 2)
  assert.equal(await advances.take(allowance, 3), 0)
  assert.ok((await advances.take(allowance, 1)) > 0)
})

test('an empty bucket refuses without a draw, and the reported wait shrinks with time', async () => {
  let time = 0
  const buckets = bucketsIn(() => time)
  const advances = createAdvances(buckets, () => time)
  const allowance = { key: 'k', capacity: 5, perMs: 0.001 }
  assert.equal(advances.refusal(allowance, 5), 0)
  await advances.take(allowance, 5)
  assert.equal(await advances.take(allowance, 5), 5_000)
  const before = buckets.asked
  time = 900
  assert.equal(advances.refusal(allowance, 5), 4_100)
  assert.equal(await advances.take(allowance, 5), 4_100)
  assert.equal(buckets.asked, before)
  time = 1_100
  assert.equal(await advances.take(allowance, 5), 3_900)
  assert.equal(buckets.asked, before + 1, 'others may have given back')
})

test('a change of capacity or rate discards the advance and the refusals of a bucket', async () => {
  const advances = advancesAtZero()
  const small = { key: 'k', capacity: 5, perMs: 0.001 }
  assert.equal(await advances.take(small, 3), 0)
  assert.ok((await advances.take(small, 3)) > 0)
  const faster = { ...small, perMs: 1 }
  assert.equal(await advances.take(faster, 3), 1)
  assert.equal(await advances.take({ ...small, capacity: 50 }, 2), 0)
})

test('while the buckets are unreachable only tokens taken in advance are served', async () => {
  let unavailable = false
  const buckets = bucketsIn(() => 0)
  const draw: Buckets['draw'] = (draws) => {
    if (unavailable) return Promise.reject(new ToolError('STORE_UNAVAILABLE', 'Redis cannot be reached.'))
    return buckets.draw(draws)
  }
  const advances = createAdvances({ draw, give: buckets.give }, () => 0)
  const allowance = { key: 'k', capacity: 100, perMs: 0.1 }
  assert.equal(await advances.take(allowance, 1), 0)
  unavailable = true
  let passed = 0
  const take = async (): Promise<void> => {
    await advances.take(allowance, 1)
    passed += 1
  }
  await assert.rejects(
    async () => {
      for (;;) await take()
    },
    { code: 'STORE_UNAVAILABLE' },
  )
  assert.equal(passed, 10, 'what was taken in advance')
  unavailable = false
  assert.equal(await advances.take(allowance, 1), 0)
})

test('the number of remembered buckets is bounded', async () => {
  let time = 0
  const advances = createAdvances(
    bucketsIn(() => time),
    () => time,
  )
  for (let n = 0; n < 25_000; n++) {
    time += 1
    await advances.take({ key: `k${n}`, capacity: 5, perMs: 1 }, 1)
  }
  assert.ok(advances.size <= 10_001, String(advances.size))
})
