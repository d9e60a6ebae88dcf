import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { pgliteDatabase, postgresDatabase } from '../../test/databases.fixture.ts'
import { someResult as sampleResult } from '../conformance/call-store/samples.ts'
import type { ArtifactStore } from './artifacts/artifact-store.ts'
import { folderArtifacts } from './artifacts/folder.ts'
import type { Database, Queries, Row } from './databases/database.ts'

/** An empty database, with the rights of the service, and an empty artifact store. */
export interface Stores {
  readonly database: Database
  /** The same database, with the rights of the owner of the tables. */
  readonly owner: Database
  readonly store: ArtifactStore
  /** The number of files in the artifact store. */
  files(): Promise<number>
}

type Case = (stores: Stores, t: TestContext) => Promise<void>

/** Runs the same tests on both databases; tables are emptied between them, because opening a database is slow. */
export function testOnDatabases(cases: { readonly [name: string]: Case }): void {
  const all = async (t: TestContext, database: Database): Promise<void> => {
    for (const [name, body] of Object.entries(cases)) {
      await t.test(name, async (own) => {
        await database.query(emptySql)
        await body({ database: database.asService(), owner: database, ...(await newStore(own)) }, own)
      })
    }
  }
  test('PGlite', async (t) => all(t, await pgliteDatabase(t)))
  test('PostgreSQL', async (t) => all(t, (await postgresDatabase(t)).database))
}

/** Truncates all tables but that of migrations; triggers are disabled, because the audit log refuses it otherwise. */
const emptySql = `
  set session_replication_role = replica;
  do $$ begin
    execute (
      select 'truncate ' || string_agg(oid::regclass::text, ', ') from pg_class
      where relnamespace = 'gantry'::regnamespace and relkind = 'r' and relname <> 'migrations'
    );
  end $$;
  set session_replication_role = origin`

export async function newStore(t: TestContext): Promise<Omit<Stores, 'database' | 'owner'>> {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-records-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return {
    store: folderArtifacts({ folder }),
    async files() {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true })
      return entries.filter((entry) => entry.isFile()).length
    },
  }
}

/** Inserts rows into a table, with its defaults for missing columns. */
export async function addRows(database: Queries, table: string, rows: readonly Row[]): Promise<void> {
  for (const row of rows) {
    const names = Object.keys(row)
    const places = names.map((_, index) => `$${index + 1}`)
    await database.query(`insert into ${table} (${names.join(', ')}) values (${places.join(', ')})`, Object.values(row))
  }
}

/** The row of an admitted call, without queue entry and outcome. */
export function someCall(callId: string, given: Row = {}): Row {
  return {
    call_id: callId,
    kind: 'call',
    tenant: 'acme',
    principal: 'alice',
    identity: '{"principal":"alice","tenant":"acme","permissions":[]}',
    fingerprint: 'f',
    tool: 'math:add:1.0.0',
    effect: 'read',
    payload: '{}',
    payload_bytes: 2,
    ...given,
  }
}

/** The outcome of a call as a row. */
export function someEnd(callId: string, given: Row = {}): Row {
  const result = JSON.stringify(someResult({ callId }))
  return { call_id: callId, status: 'ok', result, result_bytes: result.length, fence: 1, ...given }
}

export function someResult(given: Partial<Result> = {}): Result {
  return sampleResult('c1', { backend: { kind: 'local', name: 'local' }, output: { result: 8 }, ...given })
}

/** A time in the past, for a column. */
export function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString()
}
