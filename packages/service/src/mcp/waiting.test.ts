import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { fakeService } from '../http/service.fixture.ts'
import { openMcp } from './mcp.fixture.ts'

test('requests over MCP count among those of a principal that wait, and leave room for others', async (t) => {
  const begun = Promise.withResolvers<void>()
  const stays = defineTool({
    ...{ namespace: 'test', name: 'stay', description: 'Stays until it is cancelled.', effect: 'read' },
    inputSchema: { type: 'object' },
    async run(_args, { signal }) {
      begun.resolve()
      await once(signal, 'abort')
      return {}
    },
  })
  const http = { limits: { waitingPerPrincipal: 1 } }
  const { modern, otherKey, ask } = await openMcp(t, {}, fakeService([stays]), http)
  const leave = new AbortController()
  const staying = assert.rejects(
    modern('tools/call', { name: 'test__stay', arguments: {} }, { signal: leave.signal }),
    /abort/,
  )
  await begun.promise
  const add = { name: 'demo__add', arguments: { a: 1, b: 2 } }
  const { response } = await modern('tools/call', add)
  assert.deepEqual([response.status, response.headers.get('retry-after')], [429, '1'])
  assert.equal((await modern('tools/call', add, { key: otherKey })).response.status, 200)
  assert.equal((await ask('/v1/tools')).status, 200)
  leave.abort()
  await staying
})

test('a client is told at once that a circuit is open, and when to try again', async (t) => {
  const broken = defineTool({
    ...{ namespace: 'test', name: 'broken', description: 'Always fails.', effect: 'read' },
    inputSchema: { type: 'object' },
    run: () => {
      throw new Error('out of order')
    },
  })
  const rig = await openMcp(t, {}, fakeService([broken]))
  const call = async () => (await rig.call('test__broken')).result
  for (let failed = 0; failed < 5; failed++) {
    assert.equal((await call())._meta['gantry/error'].code, 'BACKEND_FAILED')
  }
  const { isError, content, _meta } = await call()
  const { code, retryable, details } = _meta['gantry/error']
  assert.deepEqual([isError, code, retryable], [true, 'CIRCUIT_OPEN', true])
  assert.ok(details.retryAfterMs > 0, JSON.stringify(details))
  assert.match(content[0].text, /try again in \d+ ms/)
})
