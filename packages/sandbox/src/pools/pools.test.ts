import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import {
  type FakeOptions,
  type FakeSandbox,
  fakeRuntime,
  fakeTiming,
  never,
  settled,
} from '../runtimes/fake.fixture.ts'
import { defaultLimits } from '../selection/limits.ts'
import { createPools, defaultPools, type PoolFault, type PoolsSettings } from './pools.ts'

const mebibyte = 1_048_576
const spec: SandboxSpec = { limits: defaultLimits, network: 'none', language: 'python' }
const refill = 10

function setUp(settings: Partial<PoolsSettings> = {}, options: FakeOptions = {}) {
  const timing = fakeTiming()
  const faults: PoolFault[] = []
  const runtime = fakeRuntime({ idleBytes: () => 10 * mebibyte, ...options })
  const pools = createPools({ ...defaultPools, ...settings }, timing, (fault) => faults.push(fault))
  const take = async (of: SandboxSpec = spec): Promise<FakeSandbox> =>
    (await pools.take(runtime, of, never)) as FakeSandbox
  /** Takes one, uses it up, and lets its replacement start. */
  const use = async (of: SandboxSpec = spec): Promise<void> => {
    await (await take(of)).dispose()
    await timing.advance(refill)
  }
  return { timing, faults, runtime, pools, take, use }
}

test('one take starts nothing ahead; the second within a minute does, and the third waits for nothing', async () => {
  const { timing, runtime, pools, take, use } = setUp()
  await use()
  assert.equal(runtime.opens, 1)
  await timing.advance(59_000)
  await use()
  assert.equal(runtime.opens, 3)
  const waiting = runtime.live()
  assert.equal(waiting.length, 1)
  assert.equal(pools.waiting, 1)
  assert.equal(await take(), waiting[0])
  assert.equal(pools.waiting, 0)
  await pools.close()
})

test('takes more than a minute apart start nothing ahead', async () => {
  const { timing, runtime, use } = setUp()
  for (let count = 0; count < 5; count++) {
    await use()
    await timing.advance(60_001)
  }
  assert.equal(runtime.opens, 5)
  assert.equal(runtime.live().length, 0)
})

test('a pool grows with demand up to its most, and shrinks to nothing when nobody comes', async () => {
  const { timing, runtime, use } = setUp({ max: 3, maxIdleMs: 300_000 })
  for (let count = 0; count < 10; count++) await use()
  await timing.advance(100)
  assert.equal(runtime.live().length, 3)
  const sizes = new Set<number>()
  for (let count = 0; count < 70; count++) {
    sizes.add(runtime.live().length)
    await timing.advance(1_000)
  }
  assert.deepEqual([...sizes], [3, 2, 1, 0])
  assert.equal(timing.pending, 0)
})

test('as many as the least that are wanted wait after the first take, demand or not', async () => {
  const { timing, runtime, pools, use } = setUp({ min: 2, maxIdleMs: 3_600_000 })
  await use()
  await timing.advance(600_000)
  assert.equal(runtime.live().length, 2)
  await pools.close()
  assert.equal(runtime.live().length, 0)
})

test('one that waited too long is thrown away, and a fresh one takes its place', async () => {
  const { timing, runtime, pools, use } = setUp({ min: 1, maxIdleMs: 60_000 })
  await use()
  const [first] = runtime.live()
  await timing.advance(59_000)
  assert.deepEqual(runtime.live(), [first])
  await timing.advance(3_000)
  assert.equal(runtime.live().length, 1)
  assert.notEqual(runtime.live()[0], first)
  assert.equal(first?.jobs.length, 0)
  await pools.close()
})

test('the memory of all that wait is bounded, and so is their number', async () => {
  const ruby = { ...spec, language: 'ruby' }
  const byMemory = setUp({ min: 4, maxMemoryBytes: 55 * mebibyte })
  await byMemory.use()
  await byMemory.use(ruby)
  await byMemory.timing.advance(5_000)
  assert.equal(byMemory.runtime.live().length, 5)
  await byMemory.pools.close()
  const byNumber = setUp({ min: 4, maxTotal: 6 })
  await byNumber.use()
  await byNumber.use(ruby)
  await byNumber.timing.advance(5_000)
  assert.equal(byNumber.runtime.live().length, 6)
  await byNumber.pools.close()
})

test('room is given back by what is taken and by what fails', async () => {
  let failures = 3
  const { timing, runtime, pools, use } = setUp(
    { min: 1, maxTotal: 1 },
    {
      onOpen: (_, signal) => {
        if (signal !== never && failures-- > 0) throw new Error('no memory')
      },
    },
  )
  await use()
  await timing.advance(10_000)
  for (let count = 0; count < 5; count++) {
    assert.equal(runtime.live().length, 1)
    await use()
  }
  await pools.close()
})

test('room that one sort no longer needs goes to the sort that found none', async () => {
  const { timing, runtime, pools, use } = setUp({ max: 1, maxTotal: 1, maxIdleMs: 3_600_000 })
  const ruby = { ...spec, language: 'ruby' }
  await use()
  await use()
  await timing.advance(50_000)
  await use(ruby)
  await use(ruby)
  assert.deepEqual(languages(runtime.live()), ['python'])
  await timing.advance(15_000)
  assert.deepEqual(languages(runtime.live()), ['ruby'])
  await pools.close()
})

function languages(sandboxes: readonly FakeSandbox[]): (string | undefined)[] {
  return sandboxes.map((sandbox) => sandbox.spec.language)
}

test('one that dies while it waits is not given out, and is told of', async () => {
  const { timing, runtime, faults, pools, take, use } = setUp({ min: 1 })
  await use()
  const [dead] = runtime.live()
  dead?.die()
  await settled()
  assert.equal(dead?.disposed, true)
  assert.notEqual(await take(), dead)
  assert.equal(faults.length, 1)
  assert.deepEqual([faults[0]?.runtime, faults[0]?.language], ['fake', 'python'])
  await timing.advance(2_000)
  await pools.close()
})

test('starts ahead that fail are told of and tried ever more seldom; calls go on by themselves', async () => {
  let works = true
  const { timing, runtime, faults, pools, take, use } = setUp(
    { min: 1 },
    {
      onOpen: (_, signal) => {
        if (!works && signal !== never) throw new Error('no memory')
      },
    },
  )
  works = false
  await use()
  const times: number[] = []
  for (let second = 0; second < 200; second++) {
    const before = runtime.opens
    await timing.advance(1_000)
    if (runtime.opens > before) times.push(second)
  }
  assert.deepEqual(
    times,
    [1, 3, 7, 15, 31, 63, 123, 183].map((second) => second - 1),
  )
  assert.equal(faults.length, 9)
  works = true
  await (await take()).dispose()
  await timing.advance(refill)
  assert.equal(runtime.live().length, 1)
  await pools.close()
})

test('who listens for faults and throws harms nothing', async () => {
  const timing = fakeTiming()
  const runtime = fakeRuntime({
    onOpen: (_, signal) => {
      if (signal !== never) throw new Error('no memory')
    },
  })
  const pools = createPools({ ...defaultPools, min: 1 }, timing, () => {
    throw new Error('the listener')
  })
  await (await pools.take(runtime, spec, never)).dispose()
  await timing.advance(5_000)
  assert.ok(runtime.opens > 2)
  await pools.close()
})

test('only what any call could use waits: no network, no session, nothing deterministic', async () => {
  const { runtime, timing, use } = setUp({ min: 4 })
  await use({ ...spec, network: { allow: ['https://api.example.com'] } })
  await use({ ...spec, session: true })
  await use({ ...spec, deterministic: { seed: 1, nowMs: 0 } })
  await timing.advance(5_000)
  assert.equal(runtime.opens, 3)
})

test('a sandbox waits only for its own sort: the same limits, the same language, as strict', async () => {
  const { runtime, timing, pools, take, use } = setUp({ min: 1 })
  await use()
  const [waiting] = runtime.live()
  const others: SandboxSpec[] = [
    { ...spec, limits: { ...defaultLimits, memoryBytes: 1_073_741_824 } },
    { ...spec, language: 'javascript' },
    { ...spec, strict: true },
  ]
  for (const other of others) {
    const taken = await take(other)
    assert.notEqual(taken, waiting)
    assert.deepEqual(taken.spec, other)
    await taken.dispose()
  }
  assert.equal(await take({ limits: { ...defaultLimits }, language: 'python', network: 'none' }), waiting)
  await timing.advance(refill)
  await pools.close()
})

test('ever new sorts make the old ones go, so that nobody fills the memory with them', async () => {
  const { runtime, pools, use } = setUp({ min: 1, maxTotal: 1_000, maxMemoryBytes: 1e12 })
  for (let count = 0; count < 100; count++) await use({ ...spec, limits: { ...defaultLimits, pids: count + 1 } })
  assert.equal(runtime.live().length, 64)
  await pools.close()
  assert.equal(runtime.live().length, 0)
})

test('closing waits for starts and ends that are under way, and nothing is started after it', async () => {
  const gates: (() => void)[] = []
  const gate = (): Promise<void> =>
    new Promise((resolve) => {
      gates.push(resolve)
    })
  const { timing, runtime, pools, use, take } = setUp(
    { min: 1 },
    { opensLate: true, onOpen: (_, signal) => (signal === never ? undefined : gate()) },
  )
  await use()
  assert.equal(gates.length, 1)
  let closed = false
  const closing = pools.close().then(() => {
    closed = true
  })
  await settled()
  assert.equal(closed, false)
  for (const open of gates) open()
  await closing
  const { opens } = runtime
  await timing.advance(600_000)
  assert.equal(runtime.opens, opens)
  assert.equal(runtime.live().length, 0)
  assert.equal(timing.pending, 0)
  await (await take()).dispose()
})

test('without settings nothing waits', async () => {
  const timing = fakeTiming()
  const runtime = fakeRuntime()
  const pools = createPools(undefined, timing, () => assert.fail())
  for (let count = 0; count < 5; count++) await (await pools.take(runtime, spec, never)).dispose()
  await timing.advance(100)
  assert.equal(runtime.opens, 5)
  assert.equal(timing.pending, 0)
  await pools.close()
})
