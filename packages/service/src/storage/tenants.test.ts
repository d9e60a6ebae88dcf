import assert from 'node:assert/strict'
import { artifactRecords } from './artifacts/artifact-records.ts'
import type { ArtifactStore } from './artifacts/artifact-store.ts'
import { callViews } from './call-views.ts'
import { addRows, someCall, someEnd, testOnDatabases } from './calls.fixture.ts'
import type { Database, Queries } from './databases/database.ts'
import { deadLetterRecords } from './dead-letters/dead-letters.ts'
import { eventRecords } from './events.ts'

const { signal } = new AbortController()
const artifactId = `art_${'0'.repeat(32)}`

/** Runs statements with their conditions on the tenant removed. */
function forgetful(queries: Queries): Queries {
  return {
    query: (sql, parameters) =>
      queries.query(sql.replaceAll(/(?:\w+\.)?tenant = (\$\d+)/g, '$1::text is not null'), parameters),
  }
}

/** The kinds of rows of a call of `acme` that a tenant can read. */
async function found(database: Database, store: ArtifactStore, tenant: string): Promise<string[]> {
  const artifacts = artifactRecords(database, store)
  const views = callViews(database, artifacts)
  const deadLetters = deadLetterRecords({ database, newId: () => assert.fail() })
  const events = eventRecords(database)
  const looks: { readonly [what: string]: () => Promise<unknown> } = {
    call: () => views.get('c1', tenant, signal),
    calls: async () => (await views.list({}, tenant)).items[0],
    'ended calls': async () => (await views.list({ state: 'failed' }, tenant)).items[0],
    outcome: async () => (await views.outcomes(['c1'], signal, tenant)).get('c1'),
    artifact: () => artifacts.find(artifactId, tenant),
    letter: () => deadLetters.get('d1', tenant),
    deadLetters: async () => (await deadLetters.list({}, tenant)).items[0],
    events: () => events.after('c1', tenant, 0, 10),
    'recent events': async () => (await events.recent('c1', tenant, 10))[0],
  }
  const seen: string[] = []
  for (const [what, look] of Object.entries(looks)) {
    const value = await look().catch((error: { code?: string }) => assert.equal(error.code, 'NOT_FOUND', what))
    if (value !== undefined) seen.push(what)
  }
  return seen
}

async function fill(database: Queries): Promise<void> {
  await addRows(database, 'calls', [someCall('c1')])
  await addRows(database, 'results', [someEnd('c1', { status: 'failed' })])
  await addRows(database, 'events', [{ call_id: 'c1', id: 1, event: '{}' }])
  const digest = `sha256:${'0'.repeat(64)}`
  const file = { fence: 1, name: 'n', mime_type: 'text/plain', bytes: 1, digest }
  await addRows(database, 'artifacts', [{ id: artifactId, tenant: 'acme', call_id: 'c1', ...file }])
  const deadLetter = { call_id: 'c1', source: 's', reason: 'r', code: 'FAILED', deliveries: 1 }
  await addRows(database, 'dead_letters', [{ id: 'd1', tenant: 'acme', ...deadLetter }])
}

const everything = [
  'call',
  'calls',
  'ended calls',
  'outcome',
  'artifact',
  'letter',
  'deadLetters',
  'events',
  'recent events',
]

testOnDatabases({
  'a tenant reads all rows of its own and none of another tenant': async ({ database, store }) => {
    await fill(database)
    assert.deepEqual(await found(database, store, 'acme'), everything)
    assert.deepEqual(await found(database, store, 'umbrella'), [])
  },

  'row-level security hides other tenants from a statement without a condition on the tenant': async ({
    database,
    store,
  }) => {
    await fill(database)
    const kept: Database = { ...database, asTenant: (tenant) => forgetful(database.asTenant(tenant)) }
    assert.deepEqual(await found(kept, store, 'acme'), everything)
    assert.deepEqual(await found(kept, store, 'umbrella'), [])
    // With the rights of the service the same statements return the rows of all tenants.
    const open: Database = { ...database, asTenant: () => forgetful(database) }
    assert.deepEqual(await found(open, store, 'umbrella'), everything)
  },
})
