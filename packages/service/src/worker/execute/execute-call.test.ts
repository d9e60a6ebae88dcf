import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '@gantry/tools'
import { sampleTool } from '../../../test/sample-tool.fixture.ts'
import { downstreamKey } from '../../storage/calls/call-facts.ts'
import type { AdmittedCall } from '../../storage/calls/call-store.ts'
import { heldClaim } from '../../storage/calls/claim.fixture.ts'
import { runCall } from './execute-call.ts'

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

test('a tool gets the same idempotency key in every attempt, for this caller only, and the fence of each', async () => {
  const seen: unknown[] = []
  const it = sampleTool({
    effect: 'once',
    name: 'it',
    description: 'Looks.',
    run: (_args, { idempotencyKey, fence, callId }) => void seen.push([idempotencyKey, fence, callId]),
  })
  const executor = createExecutor({ tools: [it] })
  for (const fence of [1, 2]) {
    const signal = new AbortController().signal
    await runCall({ executor, claim: { ...heldClaim(call), fence }, args: {}, signal, report: () => undefined })
  }
  const key = downstreamKey(call)
  assert.deepEqual(seen, [
    [key, 1, 'c-1'],
    [key, 2, 'c-1'],
  ])
  assert.notEqual(downstreamKey({ ...call, identity: { ...call.identity, principal: 'bob' } }), key)
  await executor.close()
})

test('a redriven call has the downstream idempotency key of the first one', () => {
  const again = { ...call, callId: 'c-2', key: 'dlq:c-1', effectKey: downstreamKey(call) }
  assert.equal(downstreamKey(again), downstreamKey(call))
})
