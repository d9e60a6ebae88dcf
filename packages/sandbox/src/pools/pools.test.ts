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

test('the second take within a minute starts a warm sandbox, which serves the third', async () => {
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

test('takes more than a minute apart start no warm sandboxes', async () => {
  const { timing, runtime, use } = setUp()
  for (let count = 0; count < 5; count++) {
    await use()
    await timing.advance(60_001)
  }
  assert.equal(runtime.opens, 5)
  assert.equal(runtime.live().length, 0)
})

test('a pool grows with demand up to its maximum and shrinks to zero without demand', async () => {
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

test('after the first take the pool keeps min warm sandboxes without further demand', async () => {
  const { timing, runtime, pools, use } = setUp({ min: 2, maxIdleMs: 3_600_000 })
  await use()
  await timing.advance(600_000)
  assert.equal(runtime.live().length, 2)
  await pools.close()
  assert.equal(runtime.live().length, 0)
})

test('a warm sandbox is disposed and replaced after maxIdleMs', async () => {
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

test('the total memory and the number of warm sandboxes are bounded', async () => {
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

test('a take and a failed start release pool capacity', async () => {
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

test('a pool with demand gets the capacity of a sandbox that is needed less, at once', async () => {
  const { timing, runtime, pools, use } = setUp({ max: 1, maxTotal: 1, maxIdleMs: 3_600_000 })
  const ruby = { ...spec, language: 'ruby' }
  await use()
  await use()
  assert.deepEqual(languages(runtime.live()), ['python'])
  await timing.advance(30_000)
  await use(ruby)
  await use(ruby)
  await timing.advance(refill)
  assert.deepEqual(languages(runtime.live()), ['ruby'])
  await pools.close()
})

test('pools with equal demand leave each other their sandboxes', async () => {
  const { runtime, pools, use } = setUp({ max: 1, maxTotal: 1 })
  const ruby = { ...spec, language: 'ruby' }
  await use()
  for (let count = 0; count < 20; count++) {
    await use(ruby)
    await use()
  }
  const { opens } = runtime
  assert.deepEqual(languages(runtime.live()), ['python'])
  await use(ruby)
  assert.equal(runtime.opens, opens + 1)
  assert.deepEqual(languages(runtime.live()), ['python'])
  await pools.close()
})

test('a pool that holds much gives up what it needs least, and keeps the rest', async () => {
  const { timing, runtime, pools, use } = setUp({ max: 4, maxTotal: 4, maxIdleMs: 3_600_000 })
  const ruby = { ...spec, language: 'ruby' }
  for (let count = 0; count < 8; count++) await use()
  await timing.advance(100)
  assert.equal(runtime.live().length, 4)
  for (let count = 0; count < 8; count++) await use(ruby)
  await timing.advance(100)
  const left = languages(runtime.live())
  assert.ok(left.includes('python') && left.includes('ruby'), left.join(' '))
  assert.equal(left.length, 4)
  await pools.close()
})

test('nothing is ended for a sandbox that would not fit all the same', async () => {
  const large = { ...spec, language: 'ruby' }
  const idleBytes = ({ language }: SandboxSpec): number => (language === 'ruby' ? 100 : 10) * mebibyte
  const { timing, runtime, pools, use } = setUp({ maxMemoryBytes: 50 * mebibyte, maxIdleMs: 3_600_000 }, { idleBytes })
  await use()
  await use()
  await timing.advance(20_000)
  const before = runtime.live()
  assert.ok(before.length > 0)
  for (let count = 0; count < 5; count++) await use(large)
  assert.deepEqual(runtime.live(), before)
  await pools.close()
})

test('what sandboxes use replaces the estimate: fewer wait when it is more, more when it is less', async () => {
  const more = setUp({ min: 4, maxMemoryBytes: 50 * mebibyte }, { memoryBytes: () => 25 * mebibyte })
  await more.use()
  await more.timing.advance(500)
  assert.equal(more.runtime.live().length, 4)
  await more.timing.advance(3_000)
  assert.equal(more.runtime.live().length, 2)
  await more.timing.advance(20_000)
  assert.equal(more.runtime.live().length, 2)
  await more.pools.close()
  const less = setUp({ min: 4, maxMemoryBytes: 25 * mebibyte }, { memoryBytes: () => 6 * mebibyte })
  await less.use()
  await less.timing.advance(500)
  assert.equal(less.runtime.live().length, 2)
  await less.timing.advance(3_000)
  assert.equal(less.runtime.live().length, 4)
  await less.pools.close()
})

test('sandboxes that wait are paused after five seconds, but never the one that is next in line', async () => {
  const { timing, runtime, pools, take, use } = setUp({ min: 3, maxIdleMs: 3_600_000 }, { onPausing: () => undefined })
  await use()
  await timing.advance(3_000)
  assert.deepEqual(paused(runtime.live()), [false, false, false])
  await timing.advance(4_000)
  assert.deepEqual(paused(runtime.live()), [false, true, true])
  const taken = await take()
  assert.equal(taken.paused, false)
  await settled()
  const [next] = runtime.live().filter((sandbox) => sandbox !== taken)
  assert.equal(next?.paused, false)
  await taken.run({ program: { kind: 'script', script: '' } }, never)
  await taken.dispose()
  await pools.close()
  assert.equal(runtime.live().length, 0)
})

test('a paused sandbox is resumed before it is given out', async () => {
  const gates: (() => void)[] = []
  const resumed = (what: string): unknown =>
    what === 'resume' ? new Promise<void>((resolve) => void gates.push(resolve)) : undefined
  const { timing, runtime, pools, take, use } = setUp({ min: 2, maxIdleMs: 3_600_000 }, { onPausing: resumed })
  await use()
  await timing.advance(7_000)
  const [awake, second] = runtime.live()
  assert.deepEqual(paused(runtime.live()), [false, true])
  assert.equal(await take(), awake)
  const taking = take()
  await settled()
  assert.equal(gates.length, 1)
  for (const open of gates) open()
  assert.equal(await taking, second)
  assert.equal(second?.paused, false)
  await pools.close()
  for (const sandbox of runtime.live()) await sandbox.dispose()
})

test('a sandbox that cannot be resumed is disposed, and the take gets a fresh one', async () => {
  const onPausing = (what: string): void => {
    if (what === 'resume') throw new Error('the engine is gone')
  }
  const { timing, runtime, pools, take, use } = setUp({ min: 2, maxIdleMs: 3_600_000 }, { onPausing })
  await use()
  await timing.advance(7_000)
  const before = runtime.live()
  await (await take()).dispose()
  const second = await take()
  assert.ok(!before.includes(second))
  await settled()
  assert.ok(before.every(({ disposed }) => disposed))
  await second.dispose()
  await pools.close()
})

test('a sandbox that cannot be paused is disposed and reported, and no other of its pool is paused', async () => {
  const pauses: string[] = []
  const onPausing = (what: string): void => {
    pauses.push(what)
    throw new Error('no freezer')
  }
  const { timing, runtime, faults, pools, use } = setUp({ min: 2, maxIdleMs: 3_600_000 }, { onPausing })
  await use()
  await timing.advance(60_000)
  assert.deepEqual(pauses, ['pause'])
  assert.equal(faults.length, 1)
  assert.equal(runtime.live().length, 2)
  await pools.close()
})

function paused(sandboxes: readonly FakeSandbox[]): boolean[] {
  return sandboxes.map((sandbox) => sandbox.paused)
}

function languages(sandboxes: readonly FakeSandbox[]): (string | undefined)[] {
  return sandboxes.map((sandbox) => sandbox.spec.language)
}

test('a warm sandbox that dies is reported and not given out', async () => {
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

test('failed warm starts are reported and retried with backoff; a take still opens its own sandbox', async () => {
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

test('a fault listener that throws does not stop the pool', async () => {
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

test('the pool keeps no warm sandboxes with a network, a session or determinism', async () => {
  const { runtime, timing, use } = setUp({ min: 4 })
  await use({ ...spec, network: { allow: ['https://api.example.com'] } })
  await use({ ...spec, session: true })
  await use({ ...spec, deterministic: { seed: 1, nowMs: 0 } })
  await timing.advance(5_000)
  assert.equal(runtime.opens, 3)
})

test('a warm sandbox serves only a spec with the same limits, language and strictness', async () => {
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

test('new specs evict the least recently used pools, so the number of pools is bounded', async () => {
  const { runtime, pools, use } = setUp({ min: 1, maxTotal: 1_000, maxMemoryBytes: 1e12 })
  for (let count = 0; count < 100; count++) await use({ ...spec, limits: { ...defaultLimits, pids: count + 1 } })
  assert.equal(runtime.live().length, 64)
  await pools.close()
  assert.equal(runtime.live().length, 0)
})

test('closing the pools waits for starts in progress, and no warm sandbox starts afterwards', async () => {
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

test('without settings the pools keep no warm sandboxes', async () => {
  const timing = fakeTiming()
  const runtime = fakeRuntime()
  const pools = createPools(undefined, timing, () => assert.fail())
  for (let count = 0; count < 5; count++) await (await pools.take(runtime, spec, never)).dispose()
  await timing.advance(100)
  assert.equal(runtime.opens, 5)
  assert.equal(timing.pending, 0)
  await pools.close()
})
