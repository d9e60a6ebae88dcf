import { createHash, randomBytes } from 'node:crypto'
import {
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { hasProgram, installPrograms } from '../../../scripts/engines/packages.ts'
import { startPostgres } from '../../../scripts/engines/postgres.ts'
import { webAssembly } from '../../sandbox-wasm/src/guest/binary.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { migrate, ownMigrations } from '../src/storage/databases/migrate.ts'
import { openPglite } from '../src/storage/databases/pglite.ts'
import { openPostgres, type PostgresOptions } from '../src/storage/databases/postgres.ts'

/** The version of the templates: the migrations and the engine. */
const engine = readFileSync(findPackageJSON('@electric-sql/pglite', import.meta.url) ?? '')
const version = createHash('sha256').update(JSON.stringify(ownMigrations())).update(engine).digest('hex').slice(0, 12)

/** The server of this process, if the test run has no shared one. */
const shared: { server?: Promise<string> } = {}

/** The URL of the shared server of the test run, or of one that ends with this process. */
export function postgresServer(): Promise<string> {
  shared.server ??= Promise.resolve(process.env.GANTRY_TEST_POSTGRES ?? startPostgres().then(({ url }) => url))
  return shared.server
}

/** A fresh, migrated database on a real server; the test is skipped where PostgreSQL is not installed. */
export async function postgresDatabase(
  t: TestContext,
  options: Omit<PostgresOptions, 'url'> = {},
): Promise<{ readonly url: string; readonly database: Database }> {
  if (process.env.GANTRY_TEST_POSTGRES === undefined && !hasProgram('postgres')) installPrograms()
  if (process.env.GANTRY_TEST_POSTGRES === undefined && !hasProgram('postgres')) {
    t.skip('PostgreSQL is not installed')
    throw new Error('PostgreSQL is not installed')
  }
  const server = await postgresServer()
  const name = `test_${randomBytes(6).toString('hex')}`
  await withAdmin(server, async (admin) => {
    await makeTemplate(server, admin)
    await admin.query(`create database ${name} template gantry_${version}`)
  })
  const url = urlOf(server, name)
  const database = await openPostgres({ url, ...options })
  t.after(async () => {
    await database.close()
    await withAdmin(server, (admin) => admin.query(`drop database ${name} with (force)`))
  })
  return { url, database }
}

/** The first process that needs the template creates it; the others wait. */
async function makeTemplate(server: string, admin: Database): Promise<void> {
  const template = `gantry_${version}`
  const found = await admin.query('select 1 from pg_database where datname = $1', [template])
  if (found.length > 0) return
  await admin.transaction(async (locked) => {
    await locked.query('select pg_advisory_xact_lock(1)')
    const again = await admin.query('select 1 from pg_database where datname = $1', [template])
    if (again.length > 0) return
    const draft = `draft_${randomBytes(6).toString('hex')}`
    await admin.query(`create database ${draft}`)
    const database = await openPostgres({ url: urlOf(server, draft) })
    await migrate(database).finally(() => database.close())
    await admin.query(`alter database ${draft} rename to ${template}`)
  })
}

async function withAdmin<T>(server: string, work: (admin: Database) => Promise<T>): Promise<T> {
  const admin = await openPostgres({ url: server, connections: 2 })
  try {
    return await work(admin)
  } finally {
    await admin.close()
  }
}

function urlOf(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/**
 * The WebAssembly module of PGlite, kept while this process lives: V8 finds compiled code by the module's bytes, so
 * that later databases start in half the time.
 */
const compiled: { program?: unknown } = {}

function keepProgram(): void {
  const file = fileURLToPath(import.meta.resolve('@electric-sql/pglite'))
  compiled.program ??= new webAssembly.Module(readFileSync(join(dirname(file), 'pglite.wasm')))
}

/** A fresh, migrated database in a folder of its own. */
export async function pgliteDatabase(t: TestContext): Promise<Database> {
  keepProgram()
  const folder = await pgliteFolder(t)
  const database = await openPglite({ folder })
  t.after(() => database.close())
  return database
}

/** Opens a fresh, migrated database of each engine, by its name. */
export const databaseEngines: { readonly [name: string]: (t: TestContext) => Promise<Database> } = {
  PGlite: pgliteDatabase,
  PostgreSQL: async (t) => (await postgresDatabase(t)).database,
}

/** A folder with a migrated database that is not open; removed after the test. */
export async function pgliteFolder(t: TestContext): Promise<string> {
  const template = await pgliteTemplate()
  const folder = engineFolder('pglite')
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(template, 'db'), join(folder, 'db'), { recursive: true, mode: constants.COPYFILE_FICLONE })
  return folder
}

/**
 * The folder of a migrated database, `db`, to copy. Creating a database takes seconds and copying it does not, so that it
 * is created once for each version.
 */
export async function pgliteTemplate(): Promise<string> {
  const cache = join(import.meta.dirname, '../../../node_modules/.cache/gantry')
  const template = join(cache, `pglite-${version}`)
  if (existsSync(template)) return template
  mkdirSync(cache, { recursive: true })
  removeOld(cache)
  const draft = mkdtempSync(join(cache, 'draft-'))
  try {
    const database = await openPglite({ folder: draft })
    await migrate(database).finally(() => database.close())
    renameSync(draft, template)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(template)) throw error
  }
  return template
}

/** Removes templates of other versions and leftovers of unfinished runs; no run takes an hour. */
function removeOld(cache: string): void {
  const old = Date.now() - 3_600_000
  for (const name of readdirSync(cache).filter((entry) => /^(?:pglite|draft)-/.test(entry))) {
    const folder = join(cache, name)
    if (statSync(folder).mtimeMs < old) rmSync(folder, { recursive: true, force: true })
  }
}
