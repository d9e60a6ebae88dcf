import assert from 'node:assert/strict'
import { testOnDatabases } from './calls.fixture.ts'
import { workerRecords } from './workers.ts'

const someone = {
  worker: 'w1',
  host: 'h',
  pid: 7,
  roles: ['api', 'worker'],
  slots: 4,
  running: 0,
  state: 'ready',
} as const

testOnDatabases({
  'a worker is listed as it last reported, until it leaves': async ({ database }) => {
    const workers = workerRecords(database)
    await workers.report({ ...someone, state: 'starting' })
    const [first] = await workers.list()
    await workers.report({ ...someone, running: 3 })
    const [second, ...others] = await workers.list()
    assert.deepEqual(others, [])
    const { startedAt, seenAt, ...rest } = { ...second }
    assert.deepEqual(rest, { ...someone, running: 3 })
    assert.equal(startedAt, first?.startedAt)
    assert.ok(seenAt !== undefined && seenAt >= String(first?.seenAt))
    await workers.leave('w1')
    assert.deepEqual(await workers.list(), [])
  },

  'a worker is listed as gone 30 s after its last heartbeat, and as ready with the next one': async ({ database }) => {
    const workers = workerRecords(database)
    await workers.report(someone)
    await database.query(`update workers set seen_at = now() - interval '29 seconds'`)
    assert.equal((await workers.list())[0]?.state, 'ready')
    await database.query(`update workers set seen_at = now() - interval '31 seconds'`)
    assert.equal((await workers.list())[0]?.state, 'gone')
    await workers.report(someone)
    assert.equal((await workers.list())[0]?.state, 'ready')
  },

  'a report of any worker removes the rows of workers that have been gone for a day': async ({ database }) => {
    const workers = workerRecords(database)
    await workers.report({ ...someone, worker: 'old' })
    await workers.report({ ...someone, worker: 'asleep' })
    await database.query(`update workers set seen_at = now() - interval '2 days'`)
    await workers.report({ ...someone, worker: 'asleep' })
    assert.deepEqual(
      (await workers.list()).map(({ worker, state }) => [worker, state]),
      [['asleep', 'ready']],
    )
  },
})
