import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../packages/service/src/storage/databases/database.ts'
import { migrate, ownMigrations } from '../../packages/service/src/storage/databases/migrate.ts'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { type PostgresServer, startPostgres } from '../../scripts/engines/postgres.ts'
import { handTo, plansOf } from './crash.ts'
import { type Fault, type Size, seed } from './fault.ts'
import { drive, mixed, type Plan, pooled, send } from './load.ts'
import { type ServiceNode, until } from './processes.ts'
import { openSite, type Site } from './site.ts'
import { startProxy } from './tcp-proxy.ts'
import { readLedger } from './tools.ts'

/** A PostgreSQL server for one test, which may kill it. */
export async function ownServer(
  t: TestContext,
  settings: { readonly [name: string]: string | number } = {},
): Promise<{ readonly server: PostgresServer; readonly database: Database }> {
  const server = await startPostgres({ settings })
  const database = await openPostgres({ url: server.url, connections: 2 })
  t.after(async () => {
    await database.close()
    await server.stop()
  })
  await migrate(database)
  return { server, database }
}

const actedAll = (site: Site, prefix: string, count: number): Promise<boolean> =>
  until(() => readLedger(`${site.folder}/ledger`).filter(({ id }) => id.startsWith(`${prefix}-`)).length >= count)

const sleepers = (prefix: string, size: Size): Plan[] =>
  Array.from({ length: size === 'quick' ? 3 : 20 }, (_, n) => n).flatMap((n) =>
    plansOf(`${prefix}-${n}`, { afterMs: 1_000 }),
  )

/** Kills the database while calls run, and returns the number of outcomes in the spool. */
async function dieMidway(site: Site, server: PostgresServer, node: ServiceNode, plans: Plan[]): Promise<number> {
  await handTo(site, node, plans)
  await actedAll(site, plans[0]?.id.split('-')[0] ?? '', plans.length)
  server.kill()
  assert.ok(await until(async () => (await site.metric('gantry_spool_depth')) > 0), `nothing was spooled: ${node.said}`)
  assert.ok(await until(() => isQuiet(site)), `calls run, or outcomes are not on disk yet: ${node.said}`)
  return site.metric('gantry_spool_depth')
}

/** Whether no call runs and each that ended has its outcome in the database or the spool. */
export async function isQuiet(site: Site): Promise<boolean> {
  const ended = await site.metric('gantry_stage_seconds_count{stage="execute"}')
  const recorded = await site.metric('gantry_stage_seconds_count{stage="record"}')
  const open = await Promise.all(['gantry_running', 'gantry_unrecorded_outcomes'].map(site.metric))
  return recorded >= ended && open.every((count) => count === 0)
}

const down: Fault = {
  number: 7,
  name: 'outcomes wait in the spool while PostgreSQL is killed or frozen, and all are recorded afterwards',
  async run(t, size) {
    const { server, database } = await ownServer(t)
    const site = await openSite(t, { engine: 'postgres', url: server.url, database, service: { leaseMs: 5_000 } })
    const node = await site.start()
    for (let round = 0; round < (size === 'quick' ? 1 : 3); round++) {
      const plans = sleepers(`k${round}`, size)
      const waiting = await dieMidway(site, server, node, plans)
      assert.equal((await site.fetch(node, '/readyz')).status, 503)
      await server.restart()
      await pooled(plans, 20, (plan) => send(site, plan))
      assert.ok(await until(async () => (await site.metric('gantry_spool_depth')) === 0))
      assert.ok(await until(async () => (await site.fetch(node, '/readyz')).ok))
      const still = sleepers(`p${round}`, size)
      await handTo(site, node, still)
      await actedAll(site, `p${round}`, still.length)
      server.pause()
      await sleep(3_000)
      server.resume()
      await pooled(still, 20, (plan) => send(site, plan))
      t.diagnostic(`round ${round}: ${waiting} outcomes waited on disk`)
    }
    const { counts } = await site.sound('PostgreSQL down')
    assert.equal(counts.ok, counts.requests)
  },
}

const frozen: Fault = {
  number: 41,
  name: 'calls that end while PostgreSQL is frozen for longer than the lease keep their outcome',
  async run(t, size) {
    const { server, database } = await ownServer(t)
    const site = await openSite(t, { engine: 'postgres', url: server.url, database, service: { leaseMs: 5_000 } })
    const [node] = await Promise.all([site.start(), site.start({ roles: ['worker'] })])
    for (let round = 0; round < (size === 'quick' ? 1 : 3); round++) {
      const plans = sleepers(`z${round}`, size)
      await handTo(site, node, plans)
      await actedAll(site, `z${round}`, plans.length)
      server.pause()
      await sleep(10_000 + 1_000 * round)
      server.resume()
      await pooled(plans, 20, (plan) => send(site, plan))
    }
    const { counts } = await site.sound('PostgreSQL frozen')
    assert.equal(counts.ok, counts.requests)
  },
}

const downAndKilled: Fault = {
  number: 8,
  name: 'outcomes in the spool survive a kill of the worker, and the next process records them',
  async run(t, size) {
    const { server, database } = await ownServer(t)
    const site = await openSite(t, { engine: 'postgres', url: server.url, database, service: { leaseMs: 5_000 } })
    let node = await site.start()
    for (let round = 0; round < (size === 'quick' ? 1 : 3); round++) {
      const plans = sleepers(`k${round}`, size)
      const waiting = await dieMidway(site, server, node, plans)
      await node.kill()
      await server.restart()
      node = await site.again(node)
      await pooled(plans, 20, (plan) => send(site, plan))
      t.diagnostic(`round ${round}: ${waiting} outcomes waited on disk when their worker was killed`)
    }
    const { counts } = await site.sound('PostgreSQL down and worker killed')
    assert.equal(counts.ok, counts.requests, 'an outcome that was on disk was lost')
  },
}

/** Runs `work` under load, then waits for all calls. */
async function meanwhile(site: Site, size: Size, prefix: string, work: () => Promise<void>): Promise<void> {
  const { requests } = site.ledgers
  const before = requests.length
  const load = drive(site, mixed(size === 'quick' ? 30 : 300, createRandom(seed), 300, prefix), 12)
  assert.ok(await until(() => requests.length > before), 'no call was accepted')
  await work()
  await load
}

const refusing: Fault = {
  number: 9,
  name: 'no call is lost while PostgreSQL is locked, read-only or out of connections',
  async run(t, size) {
    const { server, database } = await ownServer(t, { max_connections: 30 })
    const site = await openSite(t, { engine: 'postgres', url: server.url, database, service: { leaseMs: 5_000 } })
    const node = await site.start()
    await meanwhile(site, size, 'locked', () =>
      database.transaction(async (locked) => {
        await locked.query('lock table queue in access exclusive mode')
        await sleep(2_000)
      }),
    )
    await meanwhile(site, size, 'readonly', async () => {
      await database.query('alter database postgres set default_transaction_read_only = on')
      await endOthers(database)
      await sleep(2_000)
      const ready = await site.fetch(node, '/readyz')
      t.diagnostic(`read-only: readyz ${ready.status} ${await ready.text()}`)
      await database.transaction(async (queries) => {
        await queries.query('set transaction read write')
        await queries.query('alter database postgres reset default_transaction_read_only')
      })
      await endOthers(database)
    })
    await meanwhile(site, size, 'full', async () => {
      await endOthers(database)
      const hoarders = await Promise.all(Array.from({ length: 40 }, () => hoard(server.url)))
      const taken = hoarders.filter((one) => one !== undefined)
      await endGantry(database)
      await sleep(2_000)
      await Promise.all(taken.map((one) => one.close()))
      t.diagnostic(`connections: ${taken.length} were taken away`)
    })
    const { counts } = await site.sound('PostgreSQL that refuses')
    assert.equal(counts.dead, 0)
  },
}

const hoard = (url: string): Promise<Database | undefined> =>
  openPostgres({ url, connections: 1 }).catch(() => undefined)

async function endOthers(database: Database): Promise<void> {
  await database.query(`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`)
}

/** Ends the service's connections; idle ones of the test stay open. */
async function endGantry(database: Database): Promise<void> {
  await database.query(`
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()
      and query not in ('', 'select 1')`)
}

const cut: Fault = {
  number: 10,
  name: 'an outcome whose commit was not confirmed is looked up, and its call does not run again',
  async run(t, size) {
    const { server, database } = await ownServer(t)
    const { hostname, port } = new URL(server.url)
    const proxy = await startProxy({ host: hostname, port: Number(port) })
    t.after(() => proxy.close())
    const random = createRandom(seed)
    const url = proxy.through(server.url)
    const site = await openSite(t, { engine: 'postgres', url, database, service: { leaseMs: 3_000, maxDeaths: 20 } })
    await site.start()
    proxy.decide(() => {
      const luck = random()
      return luck < 0.1 ? 'cut after' : luck < 0.15 ? 'cut before' : 'pass'
    })
    await drive(site, mixed(size === 'quick' ? 60 : 400, random, 100), 12)
    proxy.decide(() => 'pass')
    assert.ok(proxy.cuts.after > 2, `only ${proxy.cuts.after} answers were cut off`)
    t.diagnostic(`${proxy.cuts.after} answers lost after the commit, ${proxy.cuts.before} statements before it`)
    await site.sound('cut off')
  },
}

const withoutTables: Fault = {
  number: 39,
  name: 'no tool runs while the audit table is missing, and no call is lost while the dead-letter table is missing',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 2_000, maxDeaths: 50 } })
    const node = await site.start()
    const database = await openPostgres({ url: site.url ?? '', connections: 1 })
    t.after(() => database.close())
    for (const table of ['audit', 'dead_letters']) {
      await database.query(`alter table ${table} rename to ${table}_gone`)
      const plans = Array.from({ length: size === 'quick' ? 2 : 30 }, (_, n) => plansOf(`${table}-${n}`, {})).flat()
      const before = readLedger(`${site.folder}/ledger`).length
      const load = pooled(plans, 20, (plan) => send(site, { ...plan, apart: true }))
      await sleep(1_500)
      if (table === 'audit') assert.equal(readLedger(`${site.folder}/ledger`).length, before, 'a tool ran unaudited')
      await database.query(`alter table ${table}_gone rename to ${table}`)
      await load
    }
    assert.ok(node.alive)
    const { counts } = await site.sound('without its tables')
    t.diagnostic(JSON.stringify(counts))
  },
}

const newer = `
  alter table calls add column later_column text not null default 'unknown';
  alter table queue add column region text, add column weight integer not null default 1;
  alter table results add column checksum text;
  alter table audit add column previous text;
  create table later_table (tenant text primary key, calls bigint not null)`

const upgraded: Fault = {
  number: 40,
  name: 'workers of this version run and start on the tables of the next version',
  async run(t, size) {
    const site = await openSite(t, { engine: 'postgres', service: { leaseMs: 3_000 } })
    const [first] = await Promise.all([site.start(), site.start()])
    const database = await openPostgres({ url: site.url ?? '', connections: 1 })
    t.after(() => database.close())
    await meanwhile(site, size, 'upgraded', async () => {
      const own = ownMigrations()
      await migrate(database, [...own, { number: own.length + 1, sql: newer }])
      await sleep(200)
      assert.equal(await first.stop(), 0)
      await site.again(first)
    })
    await database.query(`update calls set later_column = 'kept' where idem_key = 'upgraded0'`)
    await drive(site, mixed(10, createRandom(seed), 50, 'after'), 10)
    const [row] = await database.query<{ later_column: string }>(
      `select later_column from calls where idem_key = 'upgraded0'`,
    )
    assert.equal(row?.later_column, 'kept')
    const { counts } = await site.sound('upgraded')
    assert.deepEqual([counts.attemptsLost, counts.unknown], [0, 0])
  },
}

export const databaseFaults: readonly Fault[] = [down, frozen, downAndKilled, refusing, cut, withoutTables, upgraded]
