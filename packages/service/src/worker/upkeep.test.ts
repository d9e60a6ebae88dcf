import assert from 'node:assert/strict'
import { mock, type TestContext, test } from 'node:test'
import type { CallStore, Reclaimed, ReclaimOptions } from '../storage/calls/call-store.ts'
import { stub } from '../stub.fixture.ts'
import { createUpkeep } from './upkeep.ts'
import { memoryBus } from './worker.fixture.ts'

function keeping(answers: readonly (Partial<Reclaimed> | Error)[], exclusive = false) {
  const left = [...answers]
  const asked: string[] = []
  const limits: (number | undefined)[] = []
  const log: string[] = []
  let unavailable = false
  let hangs = false
  const store = stub<CallStore>({
    reclaim: async ({ leases = 'expired', notAfter }: ReclaimOptions) => {
      asked.push(leases)
      limits.push(notAfter)
      log.push(`reclaim ${leases}`)
      const answer = left.shift() ?? {}
      if (answer instanceof Error) throw answer
      return { lost: [], promoted: 0, expired: [], ...answer }
    },
  })
  const bus = memoryBus()
  let woken = 0
  const upkeep = createUpkeep({
    store,
    bus,
    everyMs: 1_000,
    quietMs: 5_000,
    unresponsiveMs: 2_000,
    exclusive,
    now: () => Date.now(),
    drain: async () => {
      log.push('drain')
      if (unavailable) throw new Error('unavailable')
      if (hangs) await new Promise(() => undefined)
    },
    wake: () => {
      woken += 1
    },
  })
  const cut = (is: boolean): void => {
    unavailable = is
  }
  const hang = (): void => {
    hangs = true
  }
  return { upkeep, asked, limits, log, bus, cut, hang, woken: () => woken }
}

const settle = async (): Promise<void> => {
  for (let n = 0; n < 10; n++) await Promise.resolve()
}

test('with a store of its own, a new process reclaims every lease of the dead one', async () => {
  const { upkeep, asked, woken } = keeping([{ lost: ['a'], nextMs: 0 }, { lost: ['b'] }], true)
  await upkeep.begin()
  assert.deepEqual(asked, ['all', 'all'])
  assert.equal(woken(), 2)
})

test('with a shared store, a new process reclaims nothing at its start', async () => {
  const { upkeep, asked, log } = keeping([])
  await upkeep.begin()
  assert.deepEqual(asked, [])
  assert.deepEqual(log, ['drain'])
})

test('a reclaim passes a time limit for leases, and takes none for a while after the store was unresponsive', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  // Times of the store's clock: the third answer comes long after the second.
  const times = [50_000, 50_005, 63_000, 64_000, 68_000, 69_000].map((at) => ({ at }))
  const { upkeep, asked, limits } = keeping(times)
  upkeep.start()
  const look = async (ms: number): Promise<void> => {
    t.mock.timers.tick(ms)
    await settle()
  }
  await look(1_000)
  await look(5)
  assert.deepEqual(limits.splice(0), [2_000, 52_000], 'the first look only learns the time')
  for (const ms of [1_000, 1_000, 4_000, 1_000]) await look(ms)
  assert.deepEqual(limits, [52_005, 65_000, 66_000, 70_000])
  assert.deepEqual(
    asked.slice(2),
    ['expired', 'none', 'expired', 'none'],
    'unresponsive before the third and the fifth',
  )
  await upkeep.stop()
})

/** Fails one tick of upkeep and returns what the next ones did. */
async function afterOneFailure(t: TestContext, exclusive: boolean): Promise<readonly string[]> {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const { upkeep, log, cut } = keeping([], exclusive)
  upkeep.start()
  const second = async (): Promise<void> => {
    t.mock.timers.tick(1_000)
    await settle()
  }
  await second()
  assert.deepEqual(log.splice(0), ['drain', 'reclaim expired'])
  cut(true)
  await second()
  assert.deepEqual(log.splice(0), ['drain', 'reclaim none'])
  cut(false)
  for (let n = 0; n < 5; n++) await second()
  await upkeep.stop()
  return log
}

test('after a failure the spool is drained first and no lease is reclaimed for a while, but delayed calls are woken', async (t) => {
  const quiet = ['drain', 'reclaim none']
  assert.deepEqual(await afterOneFailure(t, false), [
    ...quiet,
    ...quiet,
    ...quiet,
    ...quiet,
    'drain',
    'reclaim expired',
  ])
})

test('with a store of its own, one failed tick of upkeep delays no delayed call', async (t) => {
  const look = ['drain', 'reclaim expired']
  assert.deepEqual(await afterOneFailure(t, true), [...look, ...look, ...look, ...look, ...look])
})

for (const exclusive of [false, true]) {
  test(`a spool that fails for ever keeps no delayed call waiting, and no lease is reclaimed, ${exclusive ? 'embedded' : 'shared'}`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
    const { upkeep, log, cut, bus, woken } = keeping([{ promoted: 1 }, { promoted: 1 }, { promoted: 1 }], exclusive)
    cut(true)
    upkeep.start()
    for (let n = 0; n < 12; n++) {
      t.mock.timers.tick(1_000)
      await settle()
    }
    assert.deepEqual(new Set(log), new Set(['drain', 'reclaim none']))
    assert.deepEqual([log.length, woken()], [24, 3])
    assert.equal(bus.received.filter(({ name }) => name === 'upkeep:failed').length, 1, 'it is logged once')
    await upkeep.stop()
  })
}

test('a spool that does not answer delays upkeep once, and is not asked twice at a time', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const { upkeep, log, hang } = keeping([])
  hang()
  upkeep.start()
  for (let n = 0; n < 12; n++) {
    t.mock.timers.tick(1_000)
    await settle()
  }
  assert.deepEqual(log, ['drain', ...Array.from({ length: 7 }, () => 'reclaim none')])
  await upkeep.stop()
})

test('upkeep ticks again when the next delayed call is due', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const { upkeep, asked } = keeping([{ nextMs: 200 }])
  upkeep.start()
  t.mock.timers.tick(1_000)
  await settle()
  t.mock.timers.tick(200)
  await settle()
  assert.equal(asked.length, 2)
  await upkeep.stop()
  mock.timers.reset()
})
