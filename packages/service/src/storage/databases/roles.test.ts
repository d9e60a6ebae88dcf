import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { pgliteDatabase, postgresDatabase, postgresServer } from '../../../test/databases.fixture.ts'
import { failure } from '../../conformance/database.ts'
import type { Database } from './database.ts'
import { migrate, ownMigrations } from './migrate.ts'
import { openPostgres } from './postgres.ts'

const drivers: readonly [string, (t: TestContext) => Promise<Database>][] = [
  ['postgres', async (t) => (await postgresDatabase(t)).database],
  ['pglite', pgliteDatabase],
]

for (const [name, open] of drivers) {
  test(`${name}: migrate() gives every table row-level security and the service its privileges`, async (t) => {
    const database = await open(t)
    assert.deepEqual(await unguarded(database), [])
    await database.query('create table later (tenant text, word text)')
    await database.query('create table parts (call_id text)')
    assert.deepEqual(await unguarded(database), ['later', 'parts'])
    await migrate(database, [...ownMigrations(), { number: ownMigrations().length + 1, sql: 'select 1' }])
    assert.deepEqual(await unguarded(database), [])
  })

  test(`${name}: the service role can change rows but no tables, and cannot change the audit log`, async (t) => {
    const database = await open(t)
    const service = database.asService()
    await service.query(auditSql, ['acme'])
    await service.query(`insert into circuits (key, retry_at, streak) values ('k', now(), 1)`)
    await service.query(`update circuits set streak = 2`)
    await service.query('delete from circuits')
    const refused = [
      "update audit set tenant = 'other'",
      'delete from audit',
      'truncate audit',
      'delete from audit_seals',
      'delete from policies',
      'truncate circuits',
      'drop table circuits',
      'alter table audit disable trigger all',
      'create table mine (id integer)',
      'alter table audit disable row level security',
      'delete from migrations',
    ]
    for (const sql of refused) {
      const error = await failure(service.query(sql))
      assert.deepEqual([error.code, error.effect, error.details?.sqlstate], ['INTERNAL', 'none', '42501'], sql)
    }
    const [row] = await service.query('select current_user as "user", (select count(*) from audit) as n')
    assert.deepEqual({ ...row }, { user: 'gantry_service', n: 1 })
  })

  test(`${name}: a trigger refuses changes of the audit log by the owner too`, async (t) => {
    const database = await open(t)
    await database.query(auditSql, ['acme'])
    for (const sql of ["update audit set tenant = 'other'", 'delete from audit', 'truncate audit']) {
      assert.equal((await failure(database.query(sql))).details?.sqlstate, '42501', sql)
    }
    assert.equal((await database.query(`select 1 from audit where tenant = 'acme'`)).length, 1)
  })

  test(`${name}: a tenant role reads only rows of its tenant, and cannot write`, async (t) => {
    const database = await open(t)
    await twoTenants(database)
    for (const source of [database, database.asService()]) {
      for (const tenant of ['acme', 'umbrella', `o'neil\\`]) {
        const own = source.asTenant(tenant)
        for (const table of ['calls', 'queue', 'audit', 'dead_letters', 'artifacts', 'outbox']) {
          const tenants = await own.query(`select tenant from ${table}`)
          assert.deepEqual(
            tenants.map((row) => row.tenant),
            [tenant],
            table,
          )
        }
        for (const table of ['results', 'events', 'attempts', 'journal']) {
          const calls = await own.query(`select call_id from ${table}`)
          assert.deepEqual(
            calls.map((row) => row.call_id),
            [`of ${tenant}`],
            table,
          )
        }
        const error = await failure(own.query(`update calls set tenant = 'x'`))
        assert.match(String(error.details?.sqlstate), /^(25006|42501)$/)
      }
    }
    assert.equal((await database.asService().query('select 1 from calls')).length, 3)
  })

  test(`${name}: an unknown tenant reads no rows, and a tenant role cannot read tables without tenants`, async (t) => {
    const database = await open(t)
    await twoTenants(database)
    for (const tenant of ['missing', '', 'ACME', 'acme\0', 'acme ', `acme' or 'a' = 'a`, '%']) {
      assert.deepEqual(await database.asTenant(tenant).query('select 1 from calls'), [], JSON.stringify(tenant))
    }
    for (const table of ['workers', 'circuits', 'migrations', 'nonces']) {
      const error = await failure(database.asTenant('acme').query(`select 1 from ${table}`))
      assert.equal(error.details?.sqlstate, '42501', table)
    }
  })

  test(`${name}: a connection keeps neither role nor tenant after a query of asTenant`, async (t) => {
    const database = await open(t)
    await twoTenants(database)
    const service = database.asService()
    const tenant = service.asTenant('acme')
    const whoSql = `select current_user as "user", coalesce(current_setting('gantry.tenant', true), '') as tenant`
    for (const sql of [whoSql, 'selec 1', `select 1 / (octet_length(call_id) - octet_length(call_id)) from calls`]) {
      await tenant.query(sql).catch(() => undefined)
      assert.deepEqual({ ...(await service.query(whoSql))[0] }, { user: 'gantry_service', tenant: '' })
      assert.equal((await database.query(whoSql))[0]?.tenant, '')
    }
    const mixed = Array.from({ length: 60 }, async (_, index) => {
      const [of, queries] = [
        ['acme', tenant],
        ['umbrella', service.asTenant('umbrella')],
        ['all', service],
      ][index % 3] as [string, typeof tenant]
      const rows = await queries.query('select tenant from calls where call_id <> $1', [String(index)])
      assert.deepEqual(rows.length, of === 'all' ? 3 : 1)
      if (of !== 'all') assert.equal(rows[0]?.tenant, of)
    })
    await Promise.all(mixed)
  })
}

const auditSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool) values ($1, 'p', 'of ' || $1, 1, 'start', 't')`

/** Tables without row-level security, or on which the service role has wrong privileges. */
async function unguarded(database: Database): Promise<unknown[]> {
  const rows = await database.query(`
    select relname from pg_class c
    where relnamespace = 'gantry'::regnamespace and relkind = 'r' and not (
      relrowsecurity and has_table_privilege('gantry_service', oid, 'select')
      and exists (select from pg_policy where polrelid = c.oid and polname = 'service')
      and (relname in ('migrations', 'audit') <> has_table_privilege('gantry_service', oid, 'insert'))
      and has_any_column_privilege('gantry_service', oid, 'insert') = (relname <> 'migrations')
      and (relname in ('migrations', 'audit', 'audit_seals', 'policies')
        <> has_table_privilege('gantry_service', oid, 'update, delete'))
      and not has_table_privilege('gantry_service', oid, 'truncate, trigger, references')
      and (exists (select from pg_policy where polrelid = c.oid and polname = 'tenant') or not exists (
        select from pg_attribute where attrelid = c.oid and attname in ('tenant', 'call_id') and not attisdropped)))
    order by relname`)
  return rows.map(({ relname }) => relname)
}

/** Adds a row for each of three tenants to every table with tenants. */
async function twoTenants(database: Database): Promise<void> {
  for (const tenant of ['acme', 'umbrella', `o'neil\\`]) {
    const rows = [
      `insert into calls (call_id, kind, tenant, principal, identity, fingerprint, tool, effect, payload_bytes)
        values ('of ' || $1, 'call', $1, 'p', '{}', 'f', 't', 'read', 0)`,
      `insert into queue (call_id, tenant) values ('of ' || $1, $1)`,
      `insert into results (call_id, status, result_bytes, fence) values ('of ' || $1, 'ok', 0, 1)`,
      `insert into events (call_id, id, event) values ('of ' || $1, 1, '{}')`,
      `insert into attempts (call_id, fence, outcome) values ('of ' || $1, 1, 'ok')`,
      `insert into journal (call_id, entry, state, fence) values ('of ' || $1, 'e', 'done', 1)`,
      `insert into outbox (call_id, tenant, kind, target) values ('of ' || $1, $1, 'callback', 'x')`,
      `insert into dead_letters (id, tenant, source, reason, code, deliveries) values ($1, $1, 's', 'r', 'c', 1)`,
      `insert into artifacts (id, tenant, call_id, fence, name, mime_type, bytes, digest)
        values ($1, $1, 'of ' || $1, 1, 'n', 'm', 0, 'd')`,
      auditSql,
    ]
    for (const sql of rows) await database.query(sql.replaceAll('$1', '$1::text'), [tenant])
  }
}

test('a database owner with CREATEROLE, but no superuser, can migrate and run the service', async (t) => {
  const { url } = await ownDatabase(t, 'createrole')
  await works(t, url)
})

// Since PostgreSQL 16, CREATEROLE alone does not allow SET ROLE to a created role; PGlite is newer than that.
test('on PostgreSQL 16 and newer, a login that creates the roles grants them to itself', async (t) => {
  const database = await pgliteDatabase(t)
  await database.query('drop schema gantry cascade; drop owned by gantry_service, gantry_tenant')
  await database.query('drop role gantry_service; drop role gantry_tenant')
  await database.query('create role joe login createrole; alter database postgres owner to joe')
  await database.query('set session authorization joe')
  await migrate(database)
  await database.asService().query(auditSql, ['acme'])
  assert.equal((await database.asTenant('acme').query('select 1 from audit')).length, 1)
  assert.deepEqual(await database.asTenant('other').query('select 1 from audit'), [])
})

test('a login without CREATEROLE gets the SQL that an administrator must run, and works after that', async (t) => {
  const { url, admin, login } = await ownDatabase(t, '')
  const database = await openPostgres({ url })
  t.after(() => database.close())
  const error = await failure(migrate(database))
  assert.equal(error.code, 'CONFIG_INVALID')
  const sql = /(?<=run this once: ).*$/.exec(error.message)?.[0] ?? ''
  assert.match(sql, new RegExp(`grant gantry_service, gantry_tenant to "${login}";$`))
  await admin.query(sql)
  await works(t, url)
  await works(t, url)
})

test('a login that is only a member of the roles can start on existing tables, but not migrate', async (t) => {
  const { url, admin, name } = await ownDatabase(t, 'createrole')
  await works(t, url)
  const { url: other, login } = await newLogin(t, admin, '')
  const foreign = new URL(other)
  foreign.pathname = `/${name}`
  await admin.query(`grant gantry_service, gantry_tenant to ${login}`)
  const database = await openPostgres({ url: foreign.href })
  t.after(() => database.close())
  await migrate(database)
  await database.asService().query(auditSql, ['acme'])
  const later = [...ownMigrations(), { number: ownMigrations().length + 1, sql: 'alter table circuits add word text' }]
  const error = await failure(migrate(database, later))
  assert.equal(error.code, 'CONFIG_INVALID')
  assert.match(error.message, /the login that owns them/)
})

test('databases that migrate concurrently on one server all get the roles', async (t) => {
  const urls: string[] = []
  for (let index = 0; index < 3; index++) urls.push((await ownDatabase(t, 'createrole')).url)
  await Promise.all([...urls, ...urls].map((url) => works(t, url)))
})

/** Migrates, and checks the rights of the service and of tenants. */
async function works(t: TestContext, url: string): Promise<void> {
  const database = await openPostgres({ url })
  t.after(() => database.close())
  await migrate(database)
  const service = database.asService()
  await service.query(auditSql, ['acme'])
  assert.ok((await service.asTenant('acme').query('select 1 from audit')).length > 0)
  assert.deepEqual(await service.asTenant('other').query('select 1 from audit'), [])
  assert.equal((await failure(service.query('delete from audit'))).details?.sqlstate, '42501')
}

interface Login {
  readonly url: string
  readonly login: string
}

async function newLogin(t: TestContext, admin: Database, rights: string): Promise<Login> {
  const login = `login_${randomBytes(6).toString('hex')}`
  await admin.query(`create role ${login} login nosuperuser ${rights} password 'word'`)
  t.after(() => admin.query(`drop owned by ${login}; drop role ${login}`).catch(() => undefined))
  const url = new URL(await postgresServer())
  url.username = login
  url.password = 'word'
  return { url: url.href, login }
}

/** An empty database, owned by a new login. */
async function ownDatabase(t: TestContext, rights: string): Promise<Login & { name: string; admin: Database }> {
  await postgresDatabase(t)
  const admin = await openPostgres({ url: await postgresServer() })
  const { url, login } = await newLogin(t, admin, rights)
  const name = `of_${login}`
  await admin.query(`create database ${name} owner ${login}`)
  t.after(async () => {
    await admin.query(`drop database ${name} with (force)`)
    await admin.query(`drop role ${login}`)
    await admin.close()
  })
  const own = new URL(url)
  own.pathname = `/${name}`
  return { url: own.href, login, name, admin }
}
