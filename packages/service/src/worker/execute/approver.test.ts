import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalRequest } from '@gantry/core'
import { stub } from '../../stub.fixture.ts'
import { createApprover } from './approver.ts'

const request = stub<ApprovalRequest>({
  identity: { principal: 'ada', tenant: 'acme', permissions: [] },
  id: 'test:it:1.0.0',
  digest: 'd',
  args: {},
  files: [],
  callId: 'c-1',
  reason: 'always',
  withinMs: 1_000,
})
const waiting = { signal: new AbortController().signal } as never

test('no approval is requested before the call is stored, or when it is never stored', async () => {
  const entering = Promise.withResolvers<void>()
  const asked: string[] = []
  const ask = async ({ callId }: { readonly callId: string }) => {
    asked.push(callId)
    return { kind: 'open', id: 'ap', expiresMs: 1 } as const
  }
  const approving = createApprover({ ask }, { key: 'k', entering: () => entering.promise }).approve(request, waiting)
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(asked, [])
  entering.resolve()
  assert.deepEqual(await approving, { approved: false, pending: { id: 'ap', expiresMs: 1 } })
  assert.deepEqual(asked, ['c-1'])
  const never = createApprover({ ask }, { key: 'k', entering: () => Promise.reject(new Error('unavailable')) })
  await assert.rejects(never.approve(request, waiting), /unavailable/)
  assert.deepEqual(asked, ['c-1'])
})
