import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addRows, testOnDatabases } from '../calls.fixture.ts'
import { someRow } from './audit.fixture.ts'
import { type AuditRow, digestOf, digestSql, rowColumns } from './entries.ts'

/** Any value of a column, above all text that could be mistaken for the end of a field or the start of the next. */
const hostile = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll('\0', '')),
  fc.constantFrom(
    '',
    '-',
    '1:',
    '2:--',
    `'`,
    `''`,
    '"',
    '\\',
    `\\'`,
    '$1',
    '%s',
    '\n',
    '\r\n',
    '\u2028',
    '😀',
    'ﬃ',
    'e\u0301',
    'é',
  ),
)
const maybe = fc.option(hostile, { nil: null })
const rows = fc.record({
  tenant: hostile,
  principal: hostile,
  call_id: hostile,
  phase: hostile,
  tool: hostile,
  worker: maybe,
  status: maybe,
  code: maybe,
  config: maybe,
  details: maybe,
  fence: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  at: fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
  micros: fc.nat({ max: 999 }),
})

const insertSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, worker, status, code, config, details, at)
  select tenant, principal, call_id, fence, phase, tool, worker, status, code, config, details,
    at + micros * interval '1 microsecond'
  from json_to_recordset($1::json) as d(tenant text, principal text, call_id text, fence integer, phase text, tool text,
    worker text, status text, code text, config text, details text, at timestamptz, micros integer)`

testOnDatabases({
  'SQL and JavaScript compute the same digest for any entry': async ({ database }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(rows, { minLength: 20, maxLength: 40 }), async (list) => {
        await database.query(insertSql, [JSON.stringify(list)])
        const sql = `select ${rowColumns}, encode(${digestSql}, 'hex') as digest from audit order by seq desc limit $1`
        for (const { digest, ...row } of await database.query<AuditRow & { digest: string }>(sql, [list.length])) {
          assert.equal(digestOf(row).toString('hex'), digest, JSON.stringify(row))
        }
      }),
      { numRuns: 15 },
    )
  },

  'the digest does not depend on the time zone of the connection': async ({ database }) => {
    await addRows(database, 'audit', [someRow()])
    const digests = await database.transaction(async (queries) => {
      const found: unknown[] = []
      for (const zone of ['UTC', 'Asia/Kathmandu', 'America/Santiago']) {
        await queries.query(`set local timezone = '${zone}'`)
        const [row] = await queries.query<AuditRow & { digest: string }>(
          `select ${rowColumns}, encode(${digestSql}, 'hex') as digest from audit`,
        )
        if (row !== undefined) found.push(row.digest, digestOf(row).toString('hex'))
      }
      return found
    })
    assert.deepEqual([digests.length, new Set(digests).size], [6, 1])
  },
})

test('entries that differ in one column, or in the boundary between two, have different digests', () => {
  const row: AuditRow = {
    seq: 1,
    at: '2026-01-01T00:00:00.000000Z',
    tenant: 'a',
    principal: 'b',
    callId: 'c',
    fence: 1,
    phase: 'd',
    tool: 'e',
    worker: null,
    status: null,
    code: null,
    config: null,
    details: null,
  }
  const others: Partial<AuditRow>[] = [
    { seq: 2 },
    { seq: 11 },
    { fence: 11 },
    { fence: 0 },
    { at: '2026-01-01T00:00:00.000001Z' },
    { tenant: 'A' },
    { tenant: 'ab', principal: '' },
    { tenant: '', principal: 'ab' },
    { phase: 'de', tool: '' },
    { worker: '' },
    { worker: '-' },
    { status: '' },
    { worker: 'x' },
    { status: 'x' },
    { details: 'x' },
    { tenant: 'a1:b' },
    { worker: '-1:x' },
    { at: 'infinity' },
    { at: '12026-01-01T00:00:00.000000Z' },
  ]
  const digests = [row, ...others.map((other) => ({ ...row, ...other }))].map((one) => digestOf(one).toString('hex'))
  // All invalid times have one digest, which no seal contains.
  assert.equal(new Set(digests).size, digests.length - 1)
})
