import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { directCall } from '@gantry/mcp/internal/server/direct-call'
import type { McpParts } from '@gantry/mcp/internal/server/server'
import { owner } from '../http/http.fixture.ts'
import { stub } from '../stub.fixture.ts'
import { sendCall } from './http-handler.ts'

test('a request that ends with an internal error leaves no timer that writes into its response', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const written: string[] = []
  const response = stub<ServerResponse>({
    writeHead: () => response,
    write: (text: string) => written.push(text),
  })
  const begun = Promise.withResolvers<never>()
  const parts = stub<McpParts>({
    surface: { prepare: () => ({ kind: 'answer', answer: () => begun.promise }) },
  })
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
