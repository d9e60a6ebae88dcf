import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ToolError } from '@gantry/contract'
import type { Database, Queries } from './database.ts'

/** One numbered file of SQL. */
export interface Migration {
  readonly number: number
  readonly sql: string
}

/** Taken for the time of a migration, so that of several processes that start at once one does the work. */
const lockKey = 4_721_906_113

/**
 * Brings the tables to what this version of the service needs. Each migration is one transaction, done once, in order.
 * - Concurrency: any number of processes at once; one migrates while the others wait.
 * - A database that has migrations which we do not know is accepted: in a rolling upgrade the newer service comes first,
 *   and it keeps what the older one needs. One with a gap is not: somebody has been there by hand.
 */
export async function migrate(database: Database, migrations = ownMigrations()): Promise<void> {
  let next = 1
  while (next <= migrations.length) {
    next = await database.transaction(async (queries) => {
      await queries.query('select pg_advisory_xact_lock($1)', [lockKey])
      const done = await doneMigrations(queries)
      const migration = migrations[done]
      if (migration === undefined) return done + 1
      await queries.query(migration.sql)
      await queries.query('insert into migrations (number) values ($1)', [migration.number])
      return migration.number + 1
    })
  }
}

/** How many migrations were done, the first so many without a gap. */
async function doneMigrations(queries: Queries): Promise<number> {
  await queries.query(`
    create schema if not exists gantry;
    create table if not exists migrations (number integer primary key, done_at timestamptz not null default now())
  `)
  const rows = await queries.query<{ number: number }>('select number from migrations order by number')
  const gap = rows.findIndex(({ number }, index) => number !== index + 1)
  if (gap === -1) return rows.length
  throw new ToolError(
    'CONFIG_INVALID',
    `Migration ${gap + 1} of the database is missing although later ones were done.`,
  )
}

/** The files of `migrations/`, which stands beside `src/` and, when published, beside `dist/`. */
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

/** A bundle of the program stands nearer to the folder than this file does. */
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
