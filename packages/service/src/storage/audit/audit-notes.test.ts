import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { testOnDatabases } from '../calls.fixture.ts'
import { noteAudit } from './entries.ts'

testOnDatabases({
  'an admin entry has principal, action and target, with redacted secrets and bounded size': async ({ database }) => {
    const who = { tenant: 'acme', principal: 'ada\0', action: 'keys.create' }
    await noteAudit(database, { ...who, target: 'k1', details: { name: 'ci', apiKey: 'gk_1', list: [{ token: 't' }] } })
    await noteAudit(database, { ...who, target: 'x'.repeat(9_000), details: { long: 'y'.repeat(9_000) } })
    await noteAudit(database, { ...who, target: 'k2' })
    const rows = await database.query('select principal, phase, tool, call_id, details from audit order by seq')
    const same = { principal: 'ada\ufffd', phase: 'admin', tool: 'keys.create' }
    const marks = /\[redacted (\d+) bytes hmac-sha256:\w{32}\]/g
    const shown = rows.map((row) => ({
      ...row,
      details: (row.details as string | null)?.replaceAll(marks, '<$1>') ?? null,
    }))
    const sha256 = hash('sha256', JSON.stringify({ long: 'y'.repeat(9_000) }))
    assert.deepEqual(shown, [
      { ...same, call_id: 'k1', details: '{"name":"ci","apiKey":"<4>","list":[{"token":"<1>"}]}' },
      { ...same, call_id: 'x'.repeat(500), details: JSON.stringify({ omitted: 9_011, sha256 }) },
      { ...same, call_id: 'k2', details: null },
    ])
  },

  'an admin entry is rolled back with the transaction it belongs to': async ({ database }) => {
    const note = { tenant: 'acme', principal: 'ada', action: 'keys.revoke', target: 'k1' }
    const work = database.transaction(async (queries) => {
      await noteAudit(queries, note)
      throw new Error('back')
    })
    await assert.rejects(work, /back/)
    assert.deepEqual(await database.query('select seq from audit'), [])
  },
})
