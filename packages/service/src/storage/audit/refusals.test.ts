import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testOnDatabases } from '../calls.fixture.ts'
import type { Queries } from '../databases/database.ts'
import { createRefusals, type Refusal } from './audit-log.ts'

const refusal: Refusal = { tenant: 'acme', principal: 'carl', tool: 'some:tool', code: 'DENIED', config: 'v1' }

testOnDatabases({
  'equal refusals become one entry with a count, and refusals with other codes are not audited': async ({
    database,
  }) => {
    const { add, flush } = createRefusals(database)
    for (let n = 0; n < 3; n++) add({ ...refusal, reason: 'No \0 way.' })
    add({ ...refusal, code: 'TOOL_NOT_FOUND', tool: 'x'.repeat(10_000) })
    add({ ...refusal, code: 'INPUT_INVALID' })
    add({ ...refusal, code: 'STORE_UNAVAILABLE' })
    await flush()
    await flush()
    const rows = await database.query('select tool, code, phase, status, config, details from audit order by seq')
    const same = { phase: 'refused', status: 'denied', config: 'v1' }
    assert.deepEqual(rows, [
      { tool: 'some:tool', code: 'DENIED', ...same, details: '{"reason":"No \ufffd way.","times":3}' },
      { tool: 'x'.repeat(500), code: 'TOOL_NOT_FOUND', ...same, details: null },
    ])
  },
})

interface Row {
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  readonly code: string
  readonly times: number
}

/** Refusals over a database that can be made unavailable, and the entries that were written. */
function rig() {
  const rows: Row[] = []
  const state = { unavailable: false }
  const queries: Queries = {
    async query(_sql, [text] = []) {
      if (state.unavailable) throw new Error('unavailable')
      for (const { details, ...row } of JSON.parse(String(text))) {
        rows.push({ ...row, times: JSON.parse(details ?? '{"times":1}').times })
      }
      return []
    },
  }
  const times = (of: Partial<Row>): number[] =>
    rows
      .filter((row) => Object.entries(of).every(([name, value]) => row[name as keyof Row] === value))
      .map((row) => row.times)
  return { ...createRefusals(queries), rows, state, times }
}

test('a principal gets at most 50 entries with a tool, the rest is counted, and an outage of the database loses none', async () => {
  const { add, flush, rows, state, times } = rig()
  state.unavailable = true
  for (let n = 0; n < 5_000; n++) add({ ...refusal, tool: `tool ${n}`, reason: `reason ${n}` })
  for (let n = 0; n < 5_000; n++) add({ ...refusal, code: 'TOOL_NOT_FOUND', tool: `tool ${n}` })
  await assert.rejects(flush(), /unavailable/)
  await assert.rejects(flush(), /unavailable/)
  add({ ...refusal, tool: 'tool 0', reason: 'reason 0' })
  state.unavailable = false
  await flush()
  assert.equal(rows.length, 52)
  assert.deepEqual([times({ tool: 'tool 0' }), times({ tool: 'tool 1' })], [[2], [1]])
  assert.deepEqual(times({ principal: 'carl', tool: '', code: 'DENIED' }), [4_950])
  assert.deepEqual(times({ principal: 'carl', tool: '', code: 'TOOL_NOT_FOUND' }), [5_000])
})

test('a principal with many refusals does not displace those of other principals or tenants', async () => {
  const { add, flush, times } = rig()
  for (let n = 0; n < 5_000; n++) add({ ...refusal, tool: `tool ${n}` })
  add({ ...refusal, principal: 'dora', tool: 'secret:read' })
  add({ ...refusal, tenant: 'other', tool: 'secret:read' })
  await flush()
  assert.deepEqual(times({ tenant: 'acme', principal: 'dora', tool: 'secret:read' }), [1])
  assert.deepEqual(times({ tenant: 'other', principal: 'carl', tool: 'secret:read' }), [1])
  for (let n = 0; n < 60; n++) add({ ...refusal, tool: `tool ${n}` })
  await flush()
  assert.deepEqual(times({ tool: 'tool 59' }), [], 'a flush gives the principal the same limit again')
  assert.deepEqual(times({ tool: 'tool 49' }), [1, 1])
})

test('a tenant with thousands of principals has an entry for each, and does not displace other tenants', async () => {
  const { add, flush, times } = rig()
  for (let n = 0; n < 3_000; n++) add({ ...refusal, principal: `one ${n}` })
  add({ ...refusal, tenant: 'other' })
  await flush()
  assert.deepEqual(times({ principal: 'one 999', tool: 'some:tool' }), [1])
  assert.deepEqual(times({ principal: 'one 2999' }), [1])
  assert.deepEqual(times({ principal: 'one 2999', tool: 'some:tool' }), [], 'without the tool')
  assert.deepEqual(times({ tenant: 'other', principal: 'carl', tool: 'some:tool' }), [1])
})

test('the number of pending entries is bounded for any names, and every refusal is counted', async () => {
  const { add, flush, rows } = rig()
  for (let n = 0; n < 30_000; n++) add({ ...refusal, principal: `one ${n}` })
  for (let n = 0; n < 30_000; n++) add({ ...refusal, tenant: `tenant ${n}` })
  await flush()
  assert.ok(rows.length <= 30_001, `${rows.length} rows`)
  assert.equal(
    rows.reduce((sum, { times }) => sum + times, 0),
    60_000,
  )
  assert.ok(
    rows.some(({ tenant, principal }) => tenant === 'acme' && principal === ''),
    'refusals of one tenant beyond the limit are counted under that tenant',
  )
})
