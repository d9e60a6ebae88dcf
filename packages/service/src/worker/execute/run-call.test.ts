import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { downstreamKey } from '../../storage/calls/call-facts.ts'
import type { AdmittedCall } from '../../storage/calls/call-store.ts'
import { runCall } from './run-call.ts'

const call: AdmittedCall = {
  callId: 'c-1',
  kind: 'call',
  identity: { principal: 'ada', tenant: 'acme', permissions: [] },
  key: 'order-1',
  fingerprint: 'f',
  tool: 'test:it',
  effect: 'keyed',
  payload: '{}',
  payloadBytes: 2,
}

test('a tool sees the same key in every attempt, of this caller alone, and the fence of each', async () => {
  const seen: unknown[] = []
  const it = defineTool({
    namespace: 'test',
    name: 'it',
    version: '1.0.0',
    description: 'Looks.',
    inputSchema: { type: 'object' },
    run: (_args, { idempotencyKey, fence, callId }) => void seen.push([idempotencyKey, fence, callId]),
  })
  const executor = createExecutor({ tools: [it] })
  const plain = {
    deliveries: 1,
    lost: 0,
    deaths: 0,
    faults: 0,
    rests: 0,
    begun: false,
    cancelled: false,
    call,
    callId: 'c-1',
  }
  for (const fence of [1, 2]) {
    const signal = new AbortController().signal
    await runCall({ executor, claim: { ...plain, fence }, args: {}, signal, report: () => undefined })
  }
  const key = downstreamKey(call)
  assert.deepEqual(seen, [
    [key, 1, 'c-1'],
    [key, 2, 'c-1'],
  ])
  assert.notEqual(downstreamKey({ ...call, identity: { ...call.identity, principal: 'bob' } }), key)
  await executor.close()
})

test('a call that is handed in again is known to its tool as the first one', () => {
  const again = { ...call, callId: 'c-2', key: 'dlq:c-1', effectKey: downstreamKey(call) }
  assert.equal(downstreamKey(again), downstreamKey(call))
})
