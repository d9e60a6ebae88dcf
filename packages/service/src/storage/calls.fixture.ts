import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { pgliteDatabase, postgresDatabase } from '../../test/databases.fixture.ts'
import type { ArtifactStore } from './artifacts/artifact-store.ts'
import { folderArtifacts } from './artifacts/folder.ts'
import type { Database, Queries, Row } from './databases/database.ts'

/** A fresh database, with the rights of the service, and an empty artifact store. */
export interface Stores {
  readonly database: Database
  /** The same, with the rights of whoever made the tables. */
  readonly owner: Database
  readonly store: ArtifactStore
  /** How many files the artifact store holds. */
  files(): Promise<number>
}

type Case = (stores: Stores, t: TestContext) => Promise<void>

/** The same tests on both databases, each of them with empty tables: opening a database takes longer than a test. */
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

/** Every table but that of migrations; the audit record refuses to be emptied otherwise. */
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

/** Puts rows into a table, as JSON, with the defaults of the table for what is left out. */
export async function addRows(database: Queries, table: string, rows: readonly Row[]): Promise<void> {
  for (const row of rows) {
    const names = Object.keys(row)
    const places = names.map((_, index) => `$${index + 1}`)
    await database.query(`insert into ${table} (${names.join(', ')}) values (${places.join(', ')})`, Object.values(row))
  }
}

/** A call as it was admitted, without anything that says what became of it. */
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
  return {
    callId: 'c1',
    tool: { id: 'math:add', version: '1.0.0' },
    backend: { kind: 'local', name: 'local' },
    status: 'ok',
    output: { result: 8 },
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 1,
    ...given,
  }
}

/** A time so long ago, for a column. */
export function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString()
}
