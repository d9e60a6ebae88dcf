import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { addRows, testOnDatabases } from '../calls.fixture.ts'
import type { Queries } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { places, sealedRows, someRow, tamper, verified } from './audit.fixture.ts'
import { createSealer } from './sealer.ts'

/** A transaction that adds an audit entry and stays open until the test ends it. */
async function openRow(transaction: (work: (queries: Queries) => Promise<void>) => Promise<void>) {
  const added = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const ended = transaction(async (queries) => {
    await addRows(queries, 'audit', [someRow({ call_id: 'late' })])
    added.resolve()
    await release.promise
  })
  await Promise.race([added.promise, ended])
  return {
    commit(): Promise<void> {
      release.resolve()
      return ended
    },
    rollback(): Promise<void> {
      release.reject(new Error('back'))
      return ended.catch(() => undefined)
    },
  }
}

testOnDatabases({
  'each entry is sealed once, and each seal is chained to the one before': async ({ database }) => {
    const { seal } = createSealer({ database })
    assert.deepEqual(await seal(), { rows: 0 })
    await addRows(database, 'audit', [someRow(), someRow({ call_id: 'c2' })])
    const first = await seal()
    assert.deepEqual([first.rows, first.head?.slice(0, 2)], [2, '1:'])
    assert.deepEqual(await seal(), { rows: 0 })
    await addRows(database, 'audit', [someRow()])
    const second = await seal()
    const { ok, seals, rows, unsealed, head } = await verified(database, { head: first.head })
    assert.deepEqual([ok, seals, rows, unsealed, head], [true, 2, 3, 0, second.head])
  },

  'numbers of rolled-back entries leave a chain that verifies': async ({ database }) => {
    await addRows(database, 'audit', [someRow()])
    const back = database.transaction(async (queries) => {
      await addRows(queries, 'audit', [someRow(), someRow()])
      throw new Error('back')
    })
    await assert.rejects(back, /back/)
    await addRows(database, 'audit', [someRow()])
    assert.equal((await createSealer({ database }).seal()).rows, 2)
    const { ok, rows } = await verified(database)
    assert.deepEqual([ok, rows], [true, 2])
  },

  'many entries are split over several seals, with fewer entries per seal when their details are long': async ({
    database,
  }) => {
    const add = (count: number, bytes: number): Promise<unknown> =>
      database.query(
        `insert into audit (tenant, principal, call_id, fence, phase, tool, details)
         select 'acme', 'alice', 'c' || n, 1, 'intent', 't', repeat('ä', $2::integer / 2) from generate_series(1, $1::integer) as n`,
        [count, bytes],
      )
    await add(2_500, 0)
    assert.equal((await createSealer({ database }).seal()).rows, 2_500)
    assert.equal((await verified(database)).seals, 3)
    await add(9, 400_000)
    await add(2, 2_000_000)
    assert.equal((await createSealer({ database }).seal()).rows, 11)
    const { ok, seals, rows } = await verified(database)
    assert.deepEqual([ok, seals, rows], [true, 3 + 5 + 2, 2_511])
  },

  'concurrent sealers and writers produce one chain': async ({ database }) => {
    const sealers = Array.from({ length: 4 }, () => createSealer({ database }))
    const writing = { now: true }
    const write = async (name: number): Promise<void> => {
      for (let n = 0; n < 60; n++) {
        const work = database.transaction(async (queries) => {
          await addRows(queries, 'audit', [someRow({ call_id: `${name}.${n}` }), someRow()])
          if (n % 5 === name) throw new Error('back')
        })
        await work.catch(() => undefined)
      }
    }
    const keepSealing = async ({ seal }: (typeof sealers)[number]): Promise<void> => {
      while (writing.now) await seal()
    }
    const sealing = Promise.all(sealers.map(keepSealing))
    await Promise.all([0, 1, 2].map(write))
    writing.now = false
    await sealing
    await createSealer({ database }).seal()
    const { ok, rows, unsealed, seals, findings } = await verified(database)
    assert.deepEqual([ok, rows, unsealed, findings], [true, 3 * 48 * 2, 0, []])
    assert.ok(seals > 3, `${seals} seals`)
  },

  'verification reports an entry inserted under a rolled-back number': async ({ database }) => {
    await sealedRows(database, 4)
    await assert.rejects(
      database.transaction(async (queries) => {
        await addRows(queries, 'audit', [someRow()])
        throw new Error('back')
      }),
    )
    await sealedRows(database, 2)
    const [gap] = await database.query<{ seq: number }>('select min(seq) + 4 as seq from audit')
    await tamper(
      database,
      `insert into audit (seq, tenant, principal, call_id, fence, phase, tool) overriding system value
       values (${gap?.seq}, 'acme', 'mallory', 'c', 1, 'end', 't')`,
    )
    await createSealer({ database }).seal()
    assert.deepEqual(places(await verified(database)), [`inserted ${gap?.seq} in 2`])
  },
})

test('the sealer waits for open transactions with entries, and blocks no other transaction', async (t) => {
  const { database } = await postgresDatabase(t)
  const { seal } = createSealer({ database })
  const late = await openRow(database.transaction)
  await addRows(database, 'audit', [someRow()])
  for (let turn = 0; turn < 3; turn++) assert.deepEqual(await seal(), { rows: 0 })
  assert.deepEqual((await verified(database)).unsealed, 1)
  // Only transactions that were open when the sealer first saw the entries delay it.
  const another = await openRow(database.transaction)
  await late.commit()
  assert.equal((await seal()).rows, 2)
  await addRows(database, 'audit', [someRow()])
  await another.rollback()
  assert.equal((await seal()).rows, 1)
  const { ok, rows, unsealed } = await verified(database)
  assert.deepEqual([ok, rows, unsealed], [true, 3, 0])
})

test('a process that is lost while it seals and writes leaves a chain that continues', async (t) => {
  const { database, url } = await postgresDatabase(t)
  const doomed = await openPostgres({ url })
  t.after(() => doomed.close())
  await addRows(database, 'audit', [someRow()])
  const sealing = doomed.transaction(async (queries) => {
    const half = { ...doomed, transaction: <T>(work: (inner: Queries) => Promise<T>) => work(queries) }
    assert.equal((await createSealer({ database: half }).seal()).rows, 1)
    await addRows(queries, 'audit', [someRow()])
    const [own] = await queries.query<{ pid: number }>('select pg_backend_pid() as pid')
    await database.query('select pg_terminate_backend($1, 5000)', [own?.pid])
  })
  await assert.rejects(sealing)
  assert.equal((await createSealer({ database }).seal()).rows, 1)
  const { ok, seals, rows } = await verified(database)
  assert.deepEqual([ok, seals, rows], [true, 1, 1])
})
