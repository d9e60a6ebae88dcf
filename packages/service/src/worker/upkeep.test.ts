import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import type { CallStore, Reclaimed } from '../stores/call-store.ts'
import { createUpkeep } from './upkeep.ts'
import { memoryBus } from './worker.fixture.ts'

function keeping(answers: readonly (Partial<Reclaimed> | Error)[], exclusive = false) {
  const left = [...answers]
  const asked: boolean[] = []
  const log: string[] = []
  let away = false
  const store = {
    reclaim: async ({ all = false }) => {
      asked.push(all)
      log.push('reclaim')
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
  assert.deepEqual(asked, [true, true])
  assert.equal(woken(), 2)
})

test('where others hold leases, a new process takes nothing at its start', async () => {
  const { upkeep, asked, log } = keeping([])
  await upkeep.begin()
  assert.deepEqual(asked, [])
  assert.deepEqual(log, ['drain'])
})

test('outcomes on disk come first, and after the database was away leases are left alone for a while', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const { upkeep, log, cut } = keeping([])
  upkeep.start()
  const second = async (): Promise<void> => {
    t.mock.timers.tick(1_000)
    await settle()
  }
  await second()
  assert.deepEqual(log.splice(0), ['drain', 'reclaim'])
  cut(true)
  await second()
  cut(false)
  for (let n = 0; n < 4; n++) await second()
  assert.deepEqual(log.splice(0), ['drain', 'drain', 'drain', 'drain', 'drain'])
  await second()
  assert.deepEqual(log, ['drain', 'reclaim'])
  await upkeep.stop()
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
