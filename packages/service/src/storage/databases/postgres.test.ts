import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { ToolError } from '@gantry/contract'
import { hasProgram } from '../../../../../scripts/engines/packages.ts'
import { type PostgresServer, startPostgres } from '../../../../../scripts/engines/postgres.ts'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { failure, testDatabase } from '../../conformance/database.ts'
import type { Database } from './database.ts'
import { openPostgres, type PostgresOptions } from './postgres.ts'

testDatabase('postgres', async (t) => (await postgresDatabase(t)).database)

async function unavailable(work: Promise<unknown>, outcome: 'none' | 'unknown', sqlstate?: string): Promise<ToolError> {
  const error = await failure(work)
  assert.equal(error.code, 'STORE_UNAVAILABLE', inspect(error))
  assert.equal(error.details?.outcome, outcome, inspect(error))
  assert.equal(error.effect, outcome === 'unknown' ? 'possible' : 'none', inspect(error))
  if (sqlstate !== undefined) assert.equal(error.details?.sqlstate, sqlstate)
  return error
}

test('an invalid PostgreSQL URL is CONFIG_INVALID', async () => {
  for (const url of ['nonsense', 'http://127.0.0.1/x', '']) {
    assert.equal((await failure(openPostgres({ url }))).code, 'CONFIG_INVALID')
  }
})

test('an unreachable or unresponsive server is STORE_UNAVAILABLE with outcome none, without the password', async (t) => {
  const deaf = createServer()
  await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve))
  t.after(() => deaf.close())
  const address = deaf.address()
  assert.ok(typeof address === 'object' && address !== null)
  for (const port of [1, address.port]) {
    const url = `postgres://gantry:geheim-12@127.0.0.1:${port}/postgres`
    const error = await unavailable(openPostgres({ url, connectMs: 300 }), 'none')
    assert.doesNotMatch(inspect(error, { depth: 20, showHidden: true }), /geheim-12/)
  }
})

describe('faults of a real server', { skip: !hasProgram('postgres') && 'PostgreSQL is not installed' }, () => {
  const most = 12
  let server: PostgresServer
  before(async () => {
    server = await startPostgres({ settings: { max_connections: most, superuser_reserved_connections: 0 } })
    const database = await openPostgres({ url: server.url })
    await database.query('create schema gantry')
    await database.query('create table words (id bigint primary key, word text)')
    await database.close()
  })
  after(() => server.stop())

  /** A database with an empty table `words`. */
  const open = async (t: TestContext, options: Omit<PostgresOptions, 'url'> = {}): Promise<Database> => {
    const database = await openPostgres({ url: server.url, ...options })
    t.after(() => database.close())
    await database.query('truncate words')
    return database
  }
  /** Waits until a statement that contains this text runs. */
  const running = async (database: Database, text: string): Promise<number> => {
    for (;;) {
      const [found] = await database.query<{ pid: number }>(
        `select pid from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()`,
        [`%${text}%`],
      )
      if (found !== undefined) return found.pid
      await pause(5)
    }
  }
  /** Runs statements until every connection to the lost server has been noticed. */
  const forget = async (database: Database): Promise<void> => {
    while (
      await database.query('select 1').then(
        () => false,
        ({ details }) => details?.outcome === 'unknown',
      )
    ) {}
  }
  const ids = async (database: Database): Promise<unknown[]> =>
    (await database.query('select id from words order by id')).map(({ id }) => id)

  test('statements are not compiled by the server, whatever their estimated cost', async (t) => {
    const database = await open(t)
    const rows = await database.query<{ readonly 'QUERY PLAN': string }>(
      `explain (analyze) select id from words where word = 'a'`,
    )
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    assert.match(plan, /Seq Scan/)
    assert.doesNotMatch(plan, /JIT/)
  })

  test('a statement whose server is killed has outcome unknown, and works again after the restart', async (t) => {
    const database = await open(t)
    const work = unavailable(database.query('insert into words select 1 from pg_sleep(60)'), 'unknown')
    await running(database, 'pg_sleep(60)')
    server.kill()
    await work
    await forget(database)
    await unavailable(database.query('select 1'), 'none')
    await server.restart()
    assert.deepEqual(await ids(database), [])
  })

  test('a transaction whose server is killed before its commit has outcome none', async (t) => {
    const database = await open(t)
    const begun = Promise.withResolvers<void>()
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1)')
      begun.resolve()
      await queries.query('select pg_sleep(60)')
    })
    await begun.promise
    await running(database, 'pg_sleep(60)')
    server.kill()
    await unavailable(work, 'none')
    await server.restart()
    await forget(database)
    assert.deepEqual(await ids(database), [])
  })

  test('a transaction whose server is killed during its commit has outcome unknown', async (t) => {
    const database = await open(t)
    await database.query(`
      create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(60); return null; end';
      create constraint trigger slow after insert on words deferrable initially deferred
        for each row execute function slow()`)
    const work = unavailable(
      database.transaction((queries) => queries.query('insert into words values (1)')),
      'unknown',
    )
    await running(database, 'commit')
    server.kill()
    await work
    await server.restart()
    await forget(database)
    await database.query('drop function slow cascade')
  })

  test('pg_terminate_backend fails the statement of that connection and no other', async (t) => {
    const database = await open(t)
    const work = unavailable(database.query('select pg_sleep(60)'), 'unknown', '57P01')
    const pid = await running(database, 'pg_sleep(60)')
    await database.query('select pg_terminate_backend($1)', [pid])
    await work
    assert.deepEqual(await ids(database), [])
  })

  test('idle connections that the server closes are replaced', async (t) => {
    const [database, other] = [await open(t), await open(t)]
    await Promise.all(Array.from({ length: 4 }, () => database.query('select pg_sleep(0.01)')))
    const ended = `select pg_terminate_backend(pid, 10000) from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`
    assert.ok((await other.query(ended)).length >= 1)
    await forget(database)
    assert.deepEqual(await ids(database), [])
  })

  test('a server without free connections is STORE_UNAVAILABLE with outcome none', async (t) => {
    const database = await open(t, { connections: most })
    const others = `select 1 from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`
    while ((await database.query(others)).length > 0) await pause(5)
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let taken = 0
    const holding = Array.from({ length: most }, () =>
      database.transaction(async () => {
        taken += 1
        if (taken === most) held.resolve()
        await release.promise
      }),
    )
    await held.promise
    await unavailable(openPostgres({ url: server.url }), 'none', '53300')
    release.resolve()
    await Promise.all(holding)
  })

  test('a statement waits for a free connection of the pool, up to connectMs', async (t) => {
    const database = await open(t, { connections: 1, connectMs: 2_000 })
    const release = Promise.withResolvers<void>()
    const holding = database.transaction(() => release.promise)
    await unavailable(database.query('insert into words values (1)'), 'none')
    const patient = database.query('insert into words values (2)')
    release.resolve()
    await Promise.all([holding, patient])
    assert.deepEqual(await ids(database), [2])
  })

  test('a write to a read-only database is STORE_UNAVAILABLE with outcome none', async (t) => {
    const database = await open(t)
    await database.query('alter role gantry set default_transaction_read_only = on')
    const reader = await openPostgres({ url: server.url })
    t.after(() => reader.close())
    await unavailable(reader.query('insert into words values (1)'), 'none', '25006')
    await unavailable(
      reader.transaction((queries) => queries.query('insert into words values ($1)', [1])),
      'none',
      '25006',
    )
    await database.query('alter role gantry reset default_transaction_read_only')
  })

  test('a statement that waits for a lock longer than statementMs has outcome none', async (t) => {
    const database = await open(t)
    const hasty = await openPostgres({ url: server.url, statementMs: 1_000 })
    t.after(() => hasty.close())
    await database.query('insert into words values (1)')
    await database.transaction(async (queries) => {
      await queries.query('select 1 from words for update')
      await unavailable(hasty.query('delete from words'), 'none', '57014')
    })
    assert.deepEqual(await ids(hasty), [1])
  })

  test('a transaction that is idle for too long is rolled back', async (t) => {
    const database = await open(t, { statementMs: 1_000 })
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1)')
      while (
        (await database.query(`select 1 from pg_stat_activity where state like 'idle in transaction'`)).length > 0
      ) {
        await pause(20)
      }
      await queries.query('insert into words values (2)')
    })
    await unavailable(work, 'none')
    assert.deepEqual(await ids(database), [])
  })

  test('statements to a suspended server time out, and close() does not wait for it', async (t) => {
    const database = await open(t, { statementMs: 1_000 })
    await database.listen('gantry_ready', () => {})
    t.after(() => server.resume())
    server.pause()
    await unavailable(database.query('insert into words values (1)'), 'unknown')
    await unavailable(openPostgres({ url: server.url, connectMs: 300 }), 'none')
    await database.close()
  })

  test('SQLSTATEs of server conditions are STORE_UNAVAILABLE, and those of wrong statements INTERNAL', async (t) => {
    const database = await open(t)
    const raise = (sqlstate: string): Promise<unknown> =>
      database.query(`do $$ begin raise exception using errcode = '${sqlstate}'; end $$`)
    for (const sqlstate of ['53100', '53200', '40001', '40P01', '55P03', '57P03', '58030', '08006']) {
      await unavailable(raise(sqlstate), 'none', sqlstate)
    }
    for (const sqlstate of ['23505', '42P01', '22P02', 'XX000', '0A000']) {
      const error = await failure(raise(sqlstate))
      assert.deepEqual([error.code, error.effect, error.details?.outcome], ['INTERNAL', 'none', 'none'], sqlstate)
    }
  })

  test('a prepared statement whose table changed fails once, and is then prepared again', async (t) => {
    const database = await open(t, { connections: 1 })
    const read = (): Promise<readonly object[]> => database.query('select * from words where id = $1', [1])
    await read()
    await database.query('alter table words add column more text')
    await unavailable(read(), 'none', '0A000')
    assert.deepEqual(await read(), [])
    await database.query('alter table words drop column more')
  })

  test('a listener is called without a payload after its connection was lost, and is then notified again', async (t) => {
    const database = await open(t)
    const received: (string | undefined)[] = []
    const next = { listener: Promise.withResolvers<void>() }
    const leave = await database.listen('gantry_ready', (payload) => {
      received.push(payload)
      next.listener.resolve()
    })
    const hearing = async (): Promise<void> => {
      await next.listener.promise
      next.listener = Promise.withResolvers<void>()
    }
    const listening = `select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'`
    assert.equal((await database.query(listening)).length, 1)
    await hearing()
    server.kill()
    await server.restart()
    await hearing()
    await forget(database)
    await database.query(`select pg_notify('gantry_ready', 'here')`)
    await hearing()
    assert.deepEqual(received.slice(0, 3), [undefined, undefined, 'here'])
    await leave()
  })

  test('listen() rejects when the server is unreachable, and registers no listener', async (t) => {
    const database = await open(t)
    server.kill()
    await unavailable(
      database.listen('gantry_ready', () => assert.fail('a listener was registered')),
      'none',
    )
    await server.restart()
    await forget(database)
    await database.query(`select pg_notify('gantry_ready', '')`)
  })
})
