import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import { openRequests } from './remote-link.ts'

const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} } as const
const notice = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } } as const

/** A transport whose notices end as they are told to. */
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

test('a cancelled request is let go when its notice was sent, or could not be', async () => {
  for (const notices of [Promise.resolve(), Promise.reject(new Error('no connection'))]) {
    const { transport, isOver } = transportOf(notices)
    await transport.send(request)
    const sending = transport.send(notice)
    assert.equal(isOver(), false)
    await sending.catch(() => {})
    assert.equal(isOver(), true)
  }
})

test('a cancelled request gives its connection up for a notice that waits for one', async (t) => {
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
