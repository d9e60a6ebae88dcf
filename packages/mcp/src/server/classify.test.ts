import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { test } from 'node:test'
import { accept, envelope, revision } from '../../../service/src/mcp/mcp.fixture.ts'
import { createClassify } from './dispatcher.ts'
import { loadSdk } from './sdk.ts'

const headers = { accept, 'mcp-protocol-version': revision, 'mcp-method': 'tools/call', 'mcp-name': 'a' }
const call = (params: object, more: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'a', _meta: envelope, ...params },
  ...more,
})

test('classify calls only a well-formed call direct, with and without its cached envelope', async () => {
  const classify = createClassify(await loadSdk())
  const versionMeta = 'io.modelcontextprotocol/protocolVersion'
  const cases: [string, IncomingHttpHeaders, object][] = [
    ['direct', headers, call({})],
    ['direct', headers, call({ arguments: { x: 1 } })],
    ['direct', headers, call({}, { id: 'text' })],
    ['sdk', headers, call({ arguments: [] })],
    ['sdk', headers, call({ inputResponses: {} })],
    ['sdk', headers, call({ requestState: 'x' })],
    ['sdk', headers, call({ _meta: { ...envelope, progressToken: 1 } })],
    ['sdk', headers, call({ _meta: { ...envelope, 'io.modelcontextprotocol/logLevel': 'info' } })],
    ['sdk', headers, call({ _meta: { [versionMeta]: revision } })],
    ['sdk', headers, call({ _meta: { ...envelope, [versionMeta]: '2027-01-01' } })],
    ['sdk', { ...headers, 'mcp-name': 'b' }, call({})],
    ['sdk', { ...headers, 'mcp-method': 'tools/list' }, call({})],
    ['sdk', { ...headers, 'mcp-protocol-version': '2025-11-25' }, call({})],
    ['sdk', { ...headers, accept: 'application/json' }, call({})],
    ['listen', { ...headers, 'mcp-method': 'subscriptions/listen' }, call({}, { method: 'subscriptions/listen' })],
    ['legacy', { accept }, call({ _meta: {} })],
    ['legacy', { accept }, [call({ _meta: {} })]],
  ]
  for (const round of [1, 2]) {
    for (const [way, said, body] of cases) assert.equal(classify(said, body), way, `${round} ${JSON.stringify(body)}`)
  }
  // An id that is none is not answered as one, although the envelope is known by now.
  for (const id of [{}, null, 1.5]) assert.notEqual(classify(headers, call({}, { id })), 'direct')
})
