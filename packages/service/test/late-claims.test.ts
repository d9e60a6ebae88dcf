import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Database } from '../src/storage/databases/database.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal
/** The statement timeout of the PostgreSQL client. */
const clientMs = 35_000

const act = sampleTool({
  name: 'act',
  description: 'Acts once.',
  effect: 'once',
  run: async () => ({}),
})

/** Calls `see` before each statement of the service is sent and after it is done. */
function watched(inner: Database, see: (sql: string, parameters: readonly unknown[], when: string) => void): Database {
  return {
    ...inner,
    async query(sql, parameters = []) {
      see(sql, parameters, 'before')
      const rows = await inner.query(sql, parameters)
      see(sql, parameters, 'after')
      return rows as never
    },
    asService: () => watched(inner.asService(), see),
  }
}

test('a once call whose insert committed without an answer runs when it is submitted again, and does not end as unknown', {
  timeout: 60_000,
}, async (t) => {
  const { database } = await postgresDatabase(t)
  let cuts = 0
  const cut = watched(database, (sql, _, when) => {
    if (when === 'before' || cuts > 0 || !/insert into calls/.test(sql)) return
    cuts += 1
    throw new ToolError('STORE_UNAVAILABLE', 'No answer came.', { details: { outcome: 'unknown' } })
  })
  const site = await openServiceSite(t, async () => cut, { tools: [act] }, { leaseMs: 4_000 })
  const input = { kind: 'call' as const, tool: 'test:act', args: {}, idempotencyKey: 'k' }
  await assert.rejects(site.service.submit(input, operator), { code: 'STORE_UNAVAILABLE' })
  const { callId, repeated } = await site.service.submit(input, operator)
  assert.equal(repeated, true)
  assert.equal((await site.service.wait(callId, operator, 40_000, never))?.status, 'ok')
})

test('each claim statement on PostgreSQL carries a deadline earlier than the client’s timeout', {
  timeout: 60_000,
}, async (t) => {
  const { database } = await postgresDatabase(t)
  const claims = {
    'take_turns(': Promise.withResolvers<unknown>(),
    'insert into calls': Promise.withResolvers<unknown>(),
    'from outbox o\n': Promise.withResolvers<unknown>(),
  }
  const seen = watched(database, (sql, parameters) => {
    for (const [text, { resolve }] of Object.entries(claims)) if (sql.includes(text)) resolve(parameters.at(-1))
  })
  const site = await openServiceSite(t, async () => seen, { tools: [act] })
  await site.service.submit({ kind: 'call', tool: 'test:act', args: {} }, operator)
  for (const [text, { promise }] of Object.entries(claims)) {
    const notAfter = await promise
    assert.ok(typeof notAfter === 'number' && notAfter < Date.now() + clientMs, `${text}: ${notAfter}`)
  }
})
