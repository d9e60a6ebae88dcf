import assert from 'node:assert/strict'
import { mock, type TestContext, test } from 'node:test'
import type { CallStore, Reclaimed, ReclaimOptions } from '../storage/calls/call-store.ts'
import { createUpkeep } from './upkeep.ts'
import { memoryBus } from './worker.fixture.ts'

function keeping(answers: readonly (Partial<Reclaimed> | Error)[], exclusive = false) {
  const left = [...answers]
  const asked: string[] = []
  const limits: (number | undefined)[] = []
  const log: string[] = []
  let away = false
  const store = {
    reclaim: async ({ leases = 'expired', notAfter }: ReclaimOptions) => {
      asked.push(leases)
      limits.push(notAfter)
      log.push(`reclaim ${leases}`)
      const answer = left.shift() ?? {}
      if (answer instanceof Error) throw answer
      return { lost: [], promoted: 0, expired: [], ...answer }
    },
  } as unknown as CallStore
  const bus = memoryBus()
  let woken = 0
  const upkeep = createUpkeep({
    ...{ store, bus, everyMs: 1_000, quietMs: 5_000, silentMs: 2_000, exclusive, now: () => Date.now() },
    drain: async () => {
      log.push('drain')
      if (away) throw new Error('away')
    },
    wake: () => {
      woken += 1
    },
  })
  const cut = (is: boolean): void => {
    away = is
  }
  return { upkeep, asked, limits, log, bus, cut, woken: () => woken }
}

const settle = async (): Promise<void> => {
  for (let n = 0; n < 10; n++) await Promise.resolve()
}

test('with the store to itself, a new process takes back everything that the dead one held', async () => {
  const { upkeep, asked, woken } = keeping([{ lost: ['a'], nextMs: 0 }, { lost: ['b'] }], true)
  await upkeep.begin()
  assert.deepEqual(asked, ['all', 'all'])
  assert.equal(woken(), 2)
})

test('where others hold leases, a new process takes nothing at its start', async () => {
  const { upkeep, asked, log } = keeping([])
  await upkeep.begin()
  assert.deepEqual(asked, [])
  assert.deepEqual(log, ['drain'])
})

test('a reclaim names the time after which it takes no lease, and after a silence none is taken for a while', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  // Of the store's clock: the third answer comes long after the second.
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
  assert.deepEqual(asked.slice(2), ['expired', 'none', 'expired', 'none'], 'a silence before the third and the fifth')
  await upkeep.stop()
})

/** Fails one tick of upkeep and answers what the next ones did. */
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
  assert.deepEqual(log.splice(0), ['drain'])
  cut(false)
  for (let n = 0; n < 5; n++) await second()
  await upkeep.stop()
  return log
}

test('after a failure outcomes in the spool come first and leases are left alone for a while, but delays are not', async (t) => {
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

test('with the store to itself, one failed tick of upkeep keeps no delay waiting', async (t) => {
  const look = ['drain', 'reclaim expired']
  assert.deepEqual(await afterOneFailure(t, true), [...look, ...look, ...look, ...look, ...look])
})

test('it looks again when the next delayed call is due', async (t) => {
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
