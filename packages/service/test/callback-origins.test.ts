import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { receiver } from '../src/reply/callback.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const tools = [
  defineTool({
    namespace: 'demo',
    name: 'one',
    description: 'One.',
    inputSchema: { type: 'object' },
    effect: 'read',
    run: () => ({ one: 1 }),
  }),
]
const asked = (callback: string) => ({ kind: 'call', tool: 'demo:one', args: {}, callback }) as const
/** Resolves every name to an unroutable address (TEST-NET-3), so that nothing leaves this machine. */
const lookup = async () => [{ address: '203.0.113.1', family: 4 }]
const denied = { code: 'EGRESS_DENIED', message: /service\.callbackOrigins/ }

test('a call whose callback URL the egress rules deny is rejected before it is stored', async (t) => {
  const inner = await receiver(t)
  const allow = [{ origin: inner.origin, private: true }, 'https://example.com']
  const { service, database } = await openServiceSite(t, pgliteDatabase, { tools, egress: { allow, lookup } })
  for (const url of [
    inner.url,
    'http://10.0.0.7/',
    'http://localhost/',
    'http://[::1]/',
    'https://elsewhere.example.com/',
  ]) {
    await assert.rejects(service.submit(asked(url), operator), denied, url)
  }
  assert.deepEqual(await database.query('select call_id from calls'), [])
  assert.ok(await service.submit(asked('https://example.com/hook'), operator))
  assert.equal(inner.received.length, 0)
})

test('service.callbackOrigins alone decides where callbacks may go', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const inner = await receiver(t, (_, response) => {
    response.end()
    arrived.resolve()
  })
  const callbackOrigins = [{ origin: inner.origin, private: true }]
  const { service } = await openServiceSite(t, pgliteDatabase, { tools }, { callbackOrigins })
  await assert.rejects(service.submit(asked('https://example.com/hook'), operator), denied)
  await service.submit(asked(inner.url), operator)
  await arrived.promise
  assert.equal(JSON.parse(inner.received[0]?.body ?? '{}').state, 'ok')
})
