import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JSONRPCMessage } from '@modelcontextprotocol/client'
import { createIncoming } from './connection.ts'

test('a result without `resultType` is marked complete, except from servers of older revisions', () => {
  const seen = (legacy: boolean, result: { [key: string]: unknown }): object => {
    const message: JSONRPCMessage = { jsonrpc: '2.0', id: 1, result: { ...result } }
    createIncoming(() => legacy).see(message)
    return message.result
  }
  assert.deepEqual(seen(false, { content: [] }), { content: [], resultType: 'complete' })
  assert.deepEqual(seen(false, { resultType: 'input_required' }), { resultType: 'input_required' })
  assert.deepEqual(seen(true, { content: [] }), { content: [] })
})
