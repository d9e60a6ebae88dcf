import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pgliteDatabase } from '../../test/databases.fixture.ts'
import { addRows } from '../storage/calls.fixture.ts'
import { readFigures } from './metrics.ts'

const approvalSql = `insert into approvals (id, tenant, call_id, tool, fingerprint, expires_at, decision)
  values ($1, 'acme', $1, 'a:b', 'f', now() + $2::text::interval, $3)`

test('readFigures counts open approvals and unsealed audit entries', async (t) => {
  const database = (await pgliteDatabase(t)).asService()
  assert.deepEqual(await readFigures(database), { approvals: 0, unsealed: 0 })
  for (const callId of ['open', 'late', 'decided']) {
    await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', lane: 'asked', run_at: 'infinity' }])
  }
  await database.query(approvalSql, ['open', '1 hour', null])
  // Its call was cancelled.
  await database.query(approvalSql, ['void', '1 hour', null])
  await database.query(approvalSql, ['late', '-1 hour', null])
  await database.query(approvalSql, ['decided', '1 hour', 'approve'])
  const row = `insert into audit (tenant, principal, call_id, fence, phase, tool) values ('acme', 'me', $1, 0, 'start', 'a:b')`
  for (const callId of ['c-1', 'c-2']) await database.query(row, [callId])
  assert.deepEqual(await readFigures(database), { approvals: 1, unsealed: 2 })
})
