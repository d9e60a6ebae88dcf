import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const inputSchema = { type: 'object' } as const

test('retries are counted, and an exception is distinguished from a failure in the metrics and the audit log', async (t) => {
  let tries = 0
  const tool = (name: string, run: () => unknown) =>
    defineTool({
      namespace: 't',
      name,
      description: 'A tool of a test.',
      inputSchema,
      effect: 'read',
      retry: { attempts: 3, delayMs: 1 },
      run,
    })
  const tools = [
    tool('good', () => 1),
    tool('failing', () => ({ success: false, error: 'no luck' })),
    tool('throwing', () => {
      throw new TypeError('x is not a function')
    }),
    tool('flaky', () => {
      tries += 1
      if (tries < 3) throw new Error('not yet')
      return tries
    }),
  ]
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const ends: unknown[] = []
  for (const {
    tool: { name },
  } of tools) {
    const { callId, outcome } = await site.call(`t:${name}`, {})
    const [row] = await site.database.query(`select status, details from audit where call_id = $1 and phase = 'end'`, [
      callId,
    ])
    const { outcome: recorded, thrownAt } = JSON.parse(String(row?.details ?? '{}'))
    ends.push([name, outcome.attempts > 1, row?.status, recorded])
    if (recorded === 'exception') assert.match(thrownAt, /outcome-classes\.test\.ts:\d+:\d+$/)
    else assert.equal(thrownAt, undefined)
  }
  assert.deepEqual(ends, [
    ['good', false, 'ok', undefined],
    ['failing', false, 'failed', undefined],
    ['throwing', true, 'failed', 'exception'],
    ['flaky', true, 'ok', undefined],
  ])
  const chain = await site.chain([{ id: 'one', tool: 't:throwing' }])
  assert.equal(chain.outcome.status, 'failed')
  const { text } = await site.service.metrics('whole')
  for (const line of [
    'tool_executor_outcomes_total{tool="t:good",outcome="ok"} 1',
    'tool_executor_outcomes_total{tool="t:failing",outcome="failed"} 1',
    'tool_executor_outcomes_total{tool="t:throwing",outcome="exception"} 1',
    'tool_executor_retries_total{tool="t:throwing"} 2',
    'tool_executor_retries_total{tool="t:flaky"} 2',
  ]) {
    assert.ok(text.split('\n').includes(line), line)
  }
  const { ok } = await site.service.audit.verify(undefined, operator, new AbortController().signal)
  assert.equal(ok, true, 'and the log verifies')
})
