import assert from 'node:assert/strict'
import { mock, type TestContext, test } from 'node:test'
import type { CallStore, Reclaimed } from '../stores/call-store.ts'
import { createUpkeep } from './upkeep.ts'
import { memoryBus } from './worker.fixture.ts'

function keeping(answers: readonly (Partial<Reclaimed> | Error)[], exclusive = false) {
  const left = [...answers]
  const asked: string[] = []
  const log: string[] = []
  let away = false
  const store = {
    reclaim: async ({ leases = 'expired' }) => {
      asked.push(leases)
      log.push(`reclaim ${leases}`)
      const answer = left.shift() ?? {}
      if (answer instanceof Error) throw answer
      return { lost: [], promoted: 0, expired: [], ...answer }
    },
  } as unknown as CallStore
  const bus = memoryBus()
  let woken = 0
  const upkeep = createUpkeep({
    ...{ store, bus, everyMs: 1_000, quietMs: 5_000, exclusive, now: () => Date.now() },
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
  return { upkeep, asked, log, bus, cut, woken: () => woken }
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
