import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { createHttpServer } from '../src/http/server.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { createLedger, openLimitedSite } from './limits.fixture.ts'

const ada: Identity = { tenant: 'acme', principal: 'ada', permissions: ['*'] }

test('HTTP requests beyond the waiter limit are rejected and audited, and a repeat gets the current state', async (t) => {
  const ledger = createLedger()
  t.after(ledger.open)
  const database = (await pgliteDatabase(t)).asService()
  const { service } = await openLimitedSite(t, { database, tenants: {}, tools: ledger.tools })
  const silent = (): void => undefined
  const server = await createHttpServer({
    service,
    limits: { waitingPerPrincipal: 1 },
    authenticate: async () => ({ identity: ada }),
    log: { debug: silent, info: silent, error: silent },
  })
  t.after(() => server.close({ graceMs: 1_000 }))
  const post = async (body: object) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${server.url}/v1/calls`, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: answer.status, body: (await answer.json()) as { callId: string; state: string; status: string } }
  }
  const keyed = { tool: 't:gated', args: {}, idempotencyKey: 'once' }
  const waiting = post(keyed)
  await eventually(async () => ledger.began.length > 0 || undefined, 'the first to run')
  for (let n = 0; n < 3; n++) assert.equal((await post({ tool: 't:work' })).status, 429)
  const { status, body } = await post(keyed)
  assert.deepEqual([status, body.state], [202, 'running'])
  assert.equal((await post({ ...keyed, args: { other: 1 } })).status, 429)
  assert.equal(ledger.began.length, 1)
  const refusals = async () => {
    const { items } = await service.audit.list({ phase: 'refused' }, ada)
    const rows = items.map(({ tool, code, details }) => ({
      tool,
      code,
      times: (details as { times?: number } | undefined)?.times ?? 1,
    }))
    return rows.length < 2 ? undefined : rows.sort((a, b) => (a.tool < b.tool ? -1 : 1))
  }
  assert.deepEqual(await eventually(refusals, 'the audit entries'), [
    { tool: 't:gated', code: 'RATE_LIMITED', times: 1 },
    { tool: 't:work', code: 'RATE_LIMITED', times: 3 },
  ])
  assert.match((await service.metrics('whole')).text, /gantry_refused_total\{code="RATE_LIMITED"\} 4/)
  ledger.open()
  assert.deepEqual([(await waiting).body.callId, (await waiting).body.status], [body.callId, 'ok'])
})
