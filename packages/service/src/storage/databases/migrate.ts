import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database, Queries } from './database.ts'

/** A numbered SQL file. */
export interface Migration {
  readonly number: number
  readonly sql: string
}

/** Advisory lock, so that one of several starting processes migrates. */
const lockKey = 4_721_906_113

/**
 * Brings the tables to what this version of the service needs. Each migration is one transaction, done once, in order.
 * - Concurrency: any number of processes at once; one migrates while the others wait.
 * - A database that has migrations which we do not know is accepted: in a rolling upgrade the newer service comes
 *   first, and it keeps what the older one needs. One with a gap is not: it was changed by hand.
 * - Rights: with those of the login, which need not own the tables when there is nothing to be done. Rejects with
 *   CONFIG_INVALID, and what an administrator can do about it, when the login may not do what is needed.
 */
export async function migrate(database: Database, migrations = ownMigrations()): Promise<void> {
  await ensureRoles(database)
  await migrateTables(database, migrations).catch((error: unknown) => {
    throw ToolError.is(error) && error.details?.sqlstate === forbidden ? mayNot(error) : error
  })
}

async function migrateTables(database: Database, migrations: readonly Migration[]): Promise<void> {
  let next = 1
  while (next <= migrations.length) {
    next = await database.transaction(async (queries) => {
      await queries.query('select pg_advisory_xact_lock($1)', [lockKey])
      const done = await doneMigrations(queries)
      const migration = migrations[done]
      if (migration === undefined) return done + 1
      await queries.query(migration.sql)
      await guardTables(queries)
      await queries.query('insert into migrations (number) values ($1)', [migration.number])
      return migration.number + 1
    })
  }
}

const forbidden = '42501'

function mayNot(cause: ToolError): ToolError {
  const message = `The login of the database may not make or change the tables of Gantry. Start the service once with
    the login that owns them, or give the database to this one: alter database … owner to ….`
  return new ToolError('CONFIG_INVALID', message.replace(/\s+/g, ' '), { cause: cause.cause, stage: 'define' })
}

/** Applies row-level security and privileges to new tables, from the migration on that adds the function. */
async function guardTables(queries: Queries): Promise<void> {
  const [found] = await queries.query(`select to_regprocedure('gantry.guard_tables()') is not null as guarded`)
  if (found?.guarded === true) await queries.query('select guard_tables()')
}

/** The number of applied migrations; throws when one is missing in between. */
async function doneMigrations(queries: Queries): Promise<number> {
  // Checked first, because creating a schema without the right fails even when it exists.
  const [found] = await queries.query(`select to_regclass('gantry.migrations') is not null as made`)
  if (found?.made !== true) await queries.query(firstSql)
  const rows = await queries.query<{ number: number }>('select number from migrations order by number')
  const gap = rows.findIndex(({ number }, index) => number !== index + 1)
  if (gap === -1) return rows.length
  throw new ToolError(
    'CONFIG_INVALID',
    `Migration ${gap + 1} of the database is missing although later ones were applied.`,
  )
}

const firstSql = `
  create schema if not exists gantry;
  create table migrations (number integer primary key, done_at timestamptz not null default now())`

/** The files of `migrations/`, which is next to `src/` and, when published, next to `dist/`. */
export function ownMigrations(): readonly Migration[] {
  const folder = findFolder(dirname(fileURLToPath(import.meta.url)))
  const names = readdirSync(folder)
    .filter((name) => /^\d{6}\.sql$/.test(name))
    .sort()
  return names.map((name, index) => {
    const number = Number(name.slice(0, 6))
    if (number !== index + 1) throw new ToolError('INTERNAL', `Migration ${index + 1} is not in ${folder}.`)
    return { number, sql: readFileSync(join(folder, name), 'utf8') }
  })
}

/** Searches upwards, because a bundle is nearer to the folder than this file. */
function findFolder(from: string): string {
  for (let place = dirname(from); place !== dirname(place); place = dirname(place)) {
    const folder = join(place, 'migrations')
    if (holdsMigrations(folder)) return folder
  }
  throw new ToolError('INTERNAL', `There is no folder of migrations above ${from}.`)
}

function holdsMigrations(folder: string): boolean {
  try {
    return readdirSync(folder).includes('000001.sql')
  } catch {
    return false
  }
}

const roles = ['gantry_service', 'gantry_tenant'] as const

/**
 * Makes the roles that the service works as, and lets the login take them on; nothing is done when it can already.
 * - Concurrency: roles belong to the whole server, so databases that begin at the same time make the same ones. What
 *   one of them cannot do because another just did is not looked at; what counts is what is there in the end.
 * - Errors: CONFIG_INVALID with the SQL for an administrator when the login may not; otherwise the database's.
 */
async function ensureRoles(database: Database): Promise<void> {
  const before = await readRoles(database)
  for (const sql of missing(before)) await database.query(sql).catch(unlessUnavailable)
  const after = missing(await readRoles(database))
  if (after.length === 0) return
  const message = `The login ${before.login} may not take on the roles of the service. Have an administrator of the
    database run this once:`
  throw new ToolError('CONFIG_INVALID', `${message.replace(/\s+/g, ' ')} ${after.map((sql) => `${sql};`).join(' ')}`, {
    stage: 'define',
  })
}

interface Found {
  readonly login: string
  readonly made: readonly string[]
  /** Roles that the login can assume. */
  readonly held: readonly string[]
}

async function readRoles(database: Database): Promise<Found> {
  const [row] = await database.query<{ login: string; made: string; held: string }>(readSql)
  if (row === undefined) throw new ToolError('INTERNAL', '`current_user` returned no row.')
  return { login: row.login, made: JSON.parse(row.made), held: JSON.parse(row.held) }
}

function missing({ login, made, held }: Found): string[] {
  const create = roles.filter((role) => !made.includes(role)).map((role) => `create role ${role} nologin`)
  const grant = roles.filter((role) => !held.includes(role))
  return grant.length === 0 ? create : [...create, `grant ${grant.join(', ')} to ${pg.escapeIdentifier(login)}`]
}

function unlessUnavailable(error: unknown): void {
  if (ToolError.is(error) && error.code === 'INTERNAL') return
  throw error
}

// Since version 16 membership without SET does not allow SET ROLE; before, every member can.
const readSql = `
  select session_user as login, coalesce(json_agg(rolname), '[]')::text as made,
    coalesce(json_agg(rolname) filter (where pg_has_role(session_user, oid,
      case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)), '[]')::text as held
  from pg_roles where rolname in (${roles.map((role) => `'${role}'`).join(', ')})`
