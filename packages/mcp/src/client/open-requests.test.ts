import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import { openRequests } from './remote-link.ts'

const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} } as const
const notice = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } } as const

/** A transport whose notifications the test settles. */
function transportOf(notices: Promise<void>) {
  let signal: AbortSignal | undefined
  const transport: Transport = {
    start: async () => {},
    close: async () => {},
    async send(message: JSONRPCMessage, options?: TransportSendOptions) {
      if ('id' in message) signal = options?.requestSignal
      else await notices
    },
  }
  openRequests(transport)
  return { transport, isOver: () => signal?.aborted === true }
}

test('a cancelled request is released once its cancellation notification is sent or fails', async () => {
  for (const notices of [Promise.resolve(), Promise.reject(new Error('no connection'))]) {
    const { transport, isOver } = transportOf(notices)
    await transport.send(request)
    const sending = transport.send(notice)
    assert.equal(isOver(), false)
    await sending.catch(() => {})
    assert.equal(isOver(), true)
  }
})

test('a cancelled request is released after one second, so that a notification waiting for its connection can be sent', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const sent = Promise.withResolvers<void>()
  const { transport, isOver } = transportOf(sent.promise)
  await transport.send(request)
  const sending = transport.send(notice)
  assert.equal(isOver(), false)
  t.mock.timers.tick(1_000)
  assert.equal(isOver(), true)
  sent.resolve()
  await sending
})
