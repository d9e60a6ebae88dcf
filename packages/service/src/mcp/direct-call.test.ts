import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { directCall } from '@gantry/mcp/internal/server/direct-call'
import type { McpParts } from '@gantry/mcp/internal/server/server'
import { owner } from '../http/http.fixture.ts'
import { sendCall } from './http-handler.ts'

test('a request that ends by a fault of ours leaves no timer behind that writes into its response', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const written: string[] = []
  const response = {
    writeHead: () => response,
    write: (text: string) => written.push(text),
  } as unknown as ServerResponse
  const begun = Promise.withResolvers<never>()
  const parts = {
    surface: { prepare: () => ({ kind: 'answer', answer: () => begun.promise }) },
  } as unknown as McpParts
  const { signal } = new AbortController()
  const answer = sendCall({ call: directCall(parts, {}) }, response, { id: 1, params: { name: 'demo__add' } }, owner, {
    stop: signal,
    gone: signal,
  })
  t.mock.timers.tick(10_000)
  assert.equal(written.length, 1, 'a client that waits receives a heartbeat')
  begun.reject(new TypeError('a fault'))
  await assert.rejects(answer, TypeError)
  t.mock.timers.tick(60_000)
  assert.equal(written.length, 1)
})
