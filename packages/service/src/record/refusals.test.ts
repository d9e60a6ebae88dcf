import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Queries } from '../databases/database.ts'
import { testOnDatabases } from '../records/calls.fixture.ts'
import { createRefusals, type Refusal } from './refusals.ts'

const refusal: Refusal = { tenant: 'acme', principal: 'carl', tool: 'some:tool', code: 'DENIED', config: 'v1' }

testOnDatabases({
  'the same refusal is one row that says how often, and what nobody is to blame for is none': async ({ database }) => {
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

test('however many different ones come, few are kept, and while the database is away none is lost', async () => {
  const written: string[] = []
  let away = true
  const queries: Queries = {
    async query(_sql, [text] = []) {
      if (away) throw new Error('away')
      written.push(String(text))
      return []
    },
  }
  const { add, flush } = createRefusals(queries)
  for (let n = 0; n < 5_000; n++) add({ ...refusal, tool: `tool ${n}` })
  await assert.rejects(flush(), /away/)
  add({ ...refusal, tool: 'tool 0' })
  away = false
  await flush()
  const rows = JSON.parse(written.join()) as { tool: string; details: string | null }[]
  assert.equal(rows.length, 1_001)
  const times = (tool: string) => JSON.parse(rows.find((row) => row.tool === tool)?.details ?? '{"times":1}').times
  assert.deepEqual([times('tool 0'), times('tool 1'), times('')], [2, 1, 4_000])
})
