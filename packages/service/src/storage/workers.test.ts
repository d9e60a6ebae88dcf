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

  'a worker is listed as lost once its lease has passed since its last heartbeat, and as ready with the next one':
    async ({ database }) => {
      const workers = workerRecords(database)
      await workers.report(someone)
      await database.query(`update workers set seen_at = now() - interval '29 seconds'`)
      assert.equal((await workers.list())[0]?.state, 'ready')
      await database.query(`update workers set seen_at = now() - interval '31 seconds'`)
      assert.equal((await workers.list())[0]?.state, 'lost')
      await workers.report(someone)
      assert.equal((await workers.list())[0]?.state, 'ready')
      for (const [leaseMs, seconds, state] of [
        [60_000, 59, 'ready'],
        [60_000, 61, 'lost'],
        // Heartbeats are five seconds apart, however short the lease is.
        [500, 14, 'ready'],
        [500, 16, 'lost'],
      ] as const) {
        await workers.report({ ...someone, leaseMs })
        await database.query(`update workers set seen_at = now() - $1 * interval '1 second'`, [seconds])
        assert.equal((await workers.list())[0]?.state, state, `${leaseMs} ${seconds}`)
      }
    },

  'a worker is listed with the parts that differ from given fingerprints, and never with its fingerprints': async ({
    database,
  }) => {
    const workers = workerRecords(database)
    await workers.report({ ...someone, fingerprints: { api_key: 'a', tools: 't', audit_keys: 'k' } })
    const [same] = await workers.list()
    assert.ok(same !== undefined && !('differs' in same) && !('fingerprints' in same))
    const [other] = await workers.list({ api_key: 'b', tools: 't', callback_key: 'c', audit_keys: 'l' })
    assert.deepEqual(other?.differs, ['api_key', 'audit_keys'])
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
