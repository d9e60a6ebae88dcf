import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const open = { type: 'object' } as const
const tool = (name: string, run: Parameters<typeof defineTool>[0]['run'], rest: object = {}) =>
  defineTool({
    namespace: 'my',
    name,
    description: 'Does something.',
    inputSchema: open,
    effect: 'once',
    ...rest,
    ...(run === undefined ? {} : { run }),
  })

const tools = [
  tool('add', (args) => Number((args as { a: number }).a) + 1, { permissions: ['my:add'] }),
  tool('pay', () => 'paid', { approval: 'always' }),
  tool('outer', async (_args, { run, chain }) => {
    const one = await run('my:add', { a: 1 })
    const { output } = await chain([{ tool: 'my:add', args: { a: one.output } }])
    return { one: one.callId, output }
  }),
  tool('asking', async (_args, { run }) => {
    const { error } = await run('my:pay')
    return { code: error?.code ?? '', details: error?.details ?? null }
  }),
]

test('a tool calls tools with its caller’s identity, and the audit log has these calls below its own', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { callId, outcome } = await site.call('my:outer', {})
  assert.deepEqual([outcome.status, outcome.output], ['ok', { one: `${callId}.1`, output: 3 }])
  const { items } = await site.service.audit.list({ call: callId }, operator)
  const inner = items.filter((one) => one.callId.startsWith(`${callId}.`))
  assert.deepEqual(new Set(inner.map(({ principal }) => principal)), new Set(['operator']))
  assert.deepEqual(
    inner
      .filter(({ phase }) => phase === 'intent')
      .map((one) => (one.details as { parent?: string } | undefined)?.parent),
    [callId, callId],
  )
  const poor = { ...operator, permissions: [] }
  const denied = await site.call('my:outer', {}, poor)
  assert.deepEqual([denied.outcome.status, denied.outcome.output], ['ok', { one: `${denied.callId}.1`, output: null }])
})

test('a call from inside a tool that needs approval fails, and creates no approval', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools })
  const { outcome } = await site.call('my:asking', {})
  assert.deepEqual([outcome.status, outcome.output], ['ok', { code: 'APPROVAL_REQUIRED', details: null }])
  assert.deepEqual(await site.database.query('select 1 from approvals'), [])
})
