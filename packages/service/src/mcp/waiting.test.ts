import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTool } from '../../test/sample-tool.fixture.ts'
import { fakeService, stayingTool } from '../http/service.fixture.ts'
import { openMcp } from './mcp.fixture.ts'

test('requests over MCP count as waiting requests of their principal, and leave slots for others', async (t) => {
  const begun = Promise.withResolvers<void>()
  const http = { limits: { waitingPerPrincipal: 1 } }
  const { modern, otherKey, ask } = await openMcp(t, {}, fakeService([stayingTool(begun.resolve)]), http)
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

test('a client gets an open circuit at once, with the time to retry', async (t) => {
  const broken = sampleTool({
    name: 'broken',
    description: 'Always fails.',
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
