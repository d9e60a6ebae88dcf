import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FakeTiming, fakeRuntime, fakeTiming } from '../runtimes/fake.fixture.ts'
import {
  createLiveOrder,
  expectedStart,
  type LiveOrder,
  type Measured,
  ranked,
  renewed,
  reordered,
} from './live-order.ts'

type Fake = ReturnType<typeof fakeRuntime>

function setUp(...costs: readonly (readonly [kind: string, cost: number])[]) {
  const timing = fakeTiming()
  const all = new Map(costs.map(([kind, cost]) => [kind, fakeRuntime({ kind, cost })]))
  const live = createLiveOrder([...all.values()], timing)
  const runtime = (kind: string): Fake => all.get(kind) ?? assert.fail(kind)
  const order = (language?: string) => live.statuses(language).map((one) => one.runtime.kind)
  return { timing, live, order, runtime }
}

/** Opens sandboxes that take this long, one after the other. */
async function opens(live: LiveOrder<Fake>, runtime: Fake, timing: FakeTiming, ms: number, times = 2): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await live.observe(
      runtime,
      'python',
      () => timing.advance(ms),
      () => false,
    )
  }
}

async function fails(live: LiveOrder<Fake>, runtime: Fake): Promise<void> {
  const open = () => Promise.reject(new Error('gone'))
  await assert.rejects(
    live.observe(runtime, 'python', open, () => true),
    /gone/,
  )
}

test('the order of two runtimes follows from what is expected of them, by this table', () => {
  // The order before, the expected starts in milliseconds, the order after.
  const table: readonly (readonly [string, { readonly [name: string]: number }, string])[] = [
    ['abc', { a: 10, b: 20, c: 30 }, 'abc'],
    ['abc', { a: 30, b: 20, c: 16 }, 'abc'],
    ['abc', { a: 40, b: 20, c: 30 }, 'bac'],
    ['abc', { a: 39, b: 20, c: 30 }, 'abc'],
    ['bac', { a: 39, b: 20, c: 30 }, 'bac'],
    ['bac', { a: 10, b: 20, c: 30 }, 'abc'],
    ['abc', { a: 100, b: 50, c: 10 }, 'cba'],
    ['abc', { a: 100, b: 90, c: 45 }, 'cab'],
    ['cab', { a: 100, b: 90, c: 180 }, 'cab'],
    ['cab', { a: 90, b: 100, c: 180 }, 'acb'],
    ['a', { a: 1 }, 'a'],
    ['', {}, ''],
  ]
  for (const [before, startMs, after] of table) {
    const order = reordered([...before], (name) => startMs[name] ?? assert.fail(name))
    assert.equal(order.join(''), after, `${before} ${JSON.stringify(startMs)}`)
  }
})

test('a runtime is expected to start as measured, or by its cost in proportion to the others, by this table', () => {
  const at = (ms: number, starts = 2, age = 0): Measured => ({ ms, starts, at: 100_000 - age })
  // The cost of the runtime, what was measured of it, what of another runtime with a cost of 10, the expectation.
  const table: readonly (readonly [number, Measured | undefined, Measured | undefined, number])[] = [
    [40, undefined, undefined, 40],
    [40, undefined, at(20), 80],
    [40, undefined, at(20, 1), 40],
    [40, at(88), undefined, 88],
    [40, at(88, 1), undefined, 40],
    [40, at(88), at(20), 88],
    [40, at(200, 2, 60_000), undefined, 120],
    [40, at(200, 2, 120_000), undefined, 80],
    [40, at(200, 2, 60_000), at(20), 140],
    [0, at(0), undefined, 1],
    [0, undefined, undefined, 1],
  ]
  for (const [cost, own, other, expected] of table) {
    const row = { cost, ...own }
    assert.equal(
      expectedStart(row, [row, { cost: 10, ...other }], 100_000),
      expected,
      JSON.stringify([cost, own, other]),
    )
  }
})

test('an estimate moves a fifth of the way to each new measurement, and the first start does not count', () => {
  const first = renewed(undefined, 900, 1)
  const second = renewed(first, 20, 2)
  assert.deepEqual(
    [first, second],
    [
      { ms: 900, at: 1, starts: 1 },
      { ms: 20, at: 2, starts: 2 },
    ],
  )
  assert.equal(renewed(second, 120, 3).ms, 40)
})

test('ready runtimes come first, then full ones, then unavailable ones, each in the order of their starts', () => {
  const status = (kind: string, state: 'ready' | 'full' | 'unavailable') =>
    ({ runtime: fakeRuntime({ kind }), startMs: 1, isMeasured: true, state }) as const
  const given = [
    status('a', 'unavailable'),
    status('b', 'full'),
    status('c', 'ready'),
    status('d', 'full'),
    status('e', 'ready'),
  ]
  assert.equal(
    ranked(given)
      .map(({ runtime }) => runtime.kind)
      .join(''),
    'cebda',
  )
})

test('runtimes without a measurement stand by their cost', () => {
  const { order } = setUp(['docker', 40], ['wasm', 1], ['process', 10])
  assert.deepEqual(order('python'), ['wasm', 'process', 'docker'])
  assert.deepEqual(order(), ['wasm', 'process', 'docker'])
})

test('a runtime that starts slowly gives way to one that is twice as fast, for that language alone, and does not flap', async () => {
  const { order, live, timing, runtime } = setUp(['near', 10], ['far', 40])
  await opens(live, runtime('far'), timing, 50)
  await opens(live, runtime('near'), timing, 90)
  assert.deepEqual(order('python'), ['near', 'far'])
  await opens(live, runtime('near'), timing, 190, 20)
  await opens(live, runtime('far'), timing, 50)
  assert.deepEqual(order('python'), ['far', 'near'])
  assert.deepEqual(order('bash'), ['near', 'far'])
  await opens(live, runtime('near'), timing, 40, 20)
  await opens(live, runtime('far'), timing, 50)
  assert.deepEqual(order('python'), ['far', 'near'], 'a small advantage changed the order back')
  await opens(live, runtime('near'), timing, 10, 20)
  await opens(live, runtime('far'), timing, 50)
  assert.deepEqual(order('python'), ['near', 'far'])
})

test('a runtime that was slow is tried again when its estimate has faded', async () => {
  const { order, live, timing, runtime } = setUp(['near', 10], ['far', 40])
  await opens(live, runtime('far'), timing, 40)
  await opens(live, runtime('near'), timing, 900)
  assert.deepEqual(order('python'), ['far', 'near'])
  await timing.advance(600_000)
  await opens(live, runtime('far'), timing, 40)
  assert.deepEqual(order('python'), ['near', 'far'])
})

test('a runtime that is unavailable is skipped while others are ready, is tried by one call at a time, and is skipped longer each time', async () => {
  const { order, live, timing, runtime } = setUp(['near', 10], ['far', 40])
  await fails(live, runtime('near'))
  assert.deepEqual(order(), ['far', 'near'])
  await timing.advance(1_999)
  assert.deepEqual(order(), ['far', 'near'])
  await timing.advance(1)
  assert.deepEqual(order(), ['near', 'far'])
  live.take(runtime('near'))
  assert.deepEqual(order(), ['far', 'near'], 'a second call joined the trial')
  await fails(live, runtime('near'))
  await timing.advance(2_000)
  assert.deepEqual(order(), ['far', 'near'])
  await timing.advance(2_000)
  assert.deepEqual(order(), ['near', 'far'])
  live.take(runtime('near'))
  await opens(live, runtime('near'), timing, 5, 1)
  assert.deepEqual(order(), ['near', 'far'])
  live.take(runtime('near'))
  assert.deepEqual(order(), ['near', 'far'])
})

test('the backoff is a minute at most, and a runtime that is alone stays in the order', async () => {
  const { live, timing, runtime } = setUp(['only', 10])
  for (let failure = 0; failure < 40; failure += 1) await fails(live, runtime('only'))
  assert.deepEqual(
    live.statuses('python').map(({ state }) => state),
    ['unavailable'],
  )
  await timing.advance(60_000)
  assert.deepEqual(
    live.statuses('python').map(({ state }) => state),
    ['ready'],
  )
})

test('a runtime with 32 starts under way comes after the others until one has ended', async () => {
  const { order, live, runtime } = setUp(['near', 10], ['far', 40])
  const ends = Array.from({ length: 32 }, () => Promise.withResolvers<void>())
  const all = ends.map(({ promise }) =>
    live.observe(
      runtime('near'),
      'python',
      () => promise,
      () => false,
    ),
  )
  assert.deepEqual(order(), ['far', 'near'])
  ends[0]?.resolve()
  await all[0]
  assert.deepEqual(order(), ['near', 'far'])
  for (const { resolve } of ends) resolve()
  await Promise.all(all)
})
