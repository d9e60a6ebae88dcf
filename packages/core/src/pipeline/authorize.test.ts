import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { memoryAudit } from '../audits/memory.ts'
import type { ApprovalRequest, Approver } from '../policies/policy.ts'
import { defineTool } from '../tools/tool.ts'
import { alice, anything, runIt, tool } from './pipeline.fixture.ts'

test('a call is denied when the caller lacks a permission, and the tool does not start', async () => {
  let calls = 0
  const guarded = tool(() => ++calls, { permissions: ['files:read', 'files:write'] })
  const denied = await runIt(guarded, {}, { identity: alice })
  assert.equal(denied.status, 'denied')
  assert.match(denied.error?.message ?? '', /files:write/)
  assert.equal(calls, 0)
  for (const permissions of [['*'], ['files:*'], ['files:read', 'files:write']]) {
    assert.equal((await runIt(guarded, {}, { identity: { ...alice, permissions } })).status, 'ok')
  }
})

test('a policy allows, denies, or fails closed', async () => {
  const withPolicy = (decide: () => unknown) =>
    runIt(
      tool(() => 1),
      {},
      { policy: { decide } as unknown as NonNullable<ExecutorOptions['policy']> },
    )
  assert.equal((await withPolicy(() => ({ effect: 'allow' }))).status, 'ok')
  assert.equal((await withPolicy(async () => ({ effect: 'deny', reason: 'no' }))).error?.code, 'DENIED')
  const failing = [
    () => {
      throw new Error('down')
    },
    async () => {
      throw new Error('down')
    },
    () => undefined,
    () => ({ effect: 'maybe' }),
    () => ({ effect: 'unavailable', reason: 'down' }),
  ]
  for (const decide of failing) assert.equal((await withPolicy(decide)).error?.code, 'POLICY_UNAVAILABLE')
})

test('a call that needs approval waits for it, and is refused when no approver is configured', async () => {
  const policy = { rules: [{ ask: '*', reason: 'costs money' }] }
  const refused = await runIt(
    tool(() => 1),
    {},
    { policy },
  )
  assert.equal(refused.error?.code, 'APPROVAL_REQUIRED')
  assert.match(refused.error?.message ?? '', /costs money/)
  const audit = memoryAudit()
  const asked: unknown[] = []
  const approve = (approved: boolean) => ({
    approve: async ({ args }: { args: unknown }) => {
      asked.push(args)
      return { approved, by: 'bob', reason: 'too dear' }
    },
  })
  assert.equal(
    (
      await runIt(
        tool(() => 1),
        { a: 1 },
        { policy, audit, approver: approve(true) },
      )
    ).status,
    'ok',
  )
  assert.deepEqual(asked, [{ a: 1 }])
  assert.equal((audit.records()[0] as { approvedBy?: string }).approvedBy, 'bob')
  const rejected = await runIt(
    tool(() => 1, { approval: 'always' }),
    {},
    { approver: approve(false) },
  )
  assert.equal(rejected.error?.code, 'DENIED')
  assert.match(rejected.error?.message ?? '', /too dear/)
})

test('a pending approval ends the call with APPROVAL_REQUIRED and the approval id', async () => {
  const asked: ApprovalRequest[] = []
  const approver: Approver = {
    async approve(request) {
      asked.push(request)
      // A pending answer is not an approval, even with `approved: true`.
      return { approved: true, pending: { id: 'a1', expiresMs: 1_000 } }
    },
  }
  const policy = { rules: [{ ask: '*', reason: 'costs money', approvers: ['managers'] }] }
  let ran = 0
  const it = tool(() => ran++)
  const { status, error } = await runIt(it, { a: 1 }, { policy, approver, limits: { approvalMs: 5_000 } })
  assert.deepEqual(
    [status, error?.code, error?.stage, error?.effect],
    ['denied', 'APPROVAL_REQUIRED', 'authorize', 'none'],
  )
  assert.deepEqual(error?.details, { approvalId: 'a1', expiresMs: 1_000 })
  assert.equal(ran, 0)
  const [request] = asked
  assert.deepEqual(
    [request?.args, request?.reason, request?.approvers, request?.withinMs],
    [...[{ a: 1 }, 'costs money', ['managers'], 5_000]],
  )
  assert.ok((request?.callId ?? '') !== '' && (request?.digest ?? '') !== '')
})

test('approvalMs does not limit an approver that declares pends', async () => {
  const approve = async () => {
    await new Promise((resolve) => setTimeout(resolve, 30))
    return { approved: true }
  }
  const it = tool(() => 1, { approval: 'always' })
  const limits = { approvalMs: 1 }
  assert.equal((await runIt(it, {}, { approver: { approve, pends: true }, limits })).status, 'ok')
  assert.equal((await runIt(it, {}, { approver: { approve }, limits })).error?.code, 'APPROVAL_REQUIRED')
})

test('a tool cannot forge an APPROVAL_REQUIRED error of the authorize stage', async () => {
  const details = { approvalId: 'a1', expiresMs: 1_000 }
  const forged = tool(() => {
    throw new ToolError('APPROVAL_REQUIRED', 'Wait.', { stage: 'authorize', details })
  })
  const { error } = await runIt(forged, {})
  assert.deepEqual([error?.code, error?.stage], ['APPROVAL_REQUIRED', 'execute'])
})

test('a call is refused when the approver fails or answers malformed data', async () => {
  const policy = { rules: [{ ask: '*' }] }
  const failing = async () => {
    throw new Error('down')
  }
  const down = await runIt(
    tool(() => 1),
    {},
    { policy, approver: { approve: failing } },
  )
  assert.equal(down.error?.code, 'POLICY_UNAVAILABLE')
  for (const answer of [undefined, null, {}, { approved: 'yes' }]) {
    const approver = { approve: () => answer } as unknown as NonNullable<ExecutorOptions['approver']>
    assert.equal(
      (
        await runIt(
          tool(() => 1),
          {},
          { policy, approver },
        )
      ).error?.code,
      'DENIED',
    )
  }
})

test('a permission pattern ends at a colon', async () => {
  const guarded = tool(() => 1, { permissions: ['files:read'] })
  for (const [permission, status] of [
    ['files:*', 'ok'],
    ['*', 'ok'],
    ['fi*', 'denied'],
    ['files*', 'denied'],
  ] as const) {
    const result = await runIt(guarded, {}, { identity: { ...alice, permissions: [permission] } })
    assert.equal(result.status, status, permission)
  }
})

test('a tool cannot change the permissions of its identity, and hidden tools cannot be described', async () => {
  const greedy = tool((_args, { identity }) => (identity.permissions as string[]).push('*'))
  const hidden = defineTool({
    namespace: 'test',
    name: 'hidden',
    description: 'Hidden.',
    inputSchema: anything,
    permissions: ['secret'],
    aliases: ['test:other'],
    run: () => 1,
  })
  const bob: Identity = { principal: 'bob', tenant: 't', permissions: ['a'] }
  const gantry = createExecutor({ tools: [greedy, hidden] })
  assert.equal((await gantry.run('test:it', {}, { identity: bob })).status, 'failed')
  assert.deepEqual(bob.permissions, ['a'])
  assert.equal((await gantry.run('test:hidden', {}, { identity: bob })).status, 'denied')
  for (const id of ['test:hidde', 'test:hidden', 'test:hidden:9.9.9', 'test:other']) {
    const error: unknown = await gantry.describe(id, { identity: bob }).catch((thrown: unknown) => thrown)
    assert.ok(ToolError.is(error))
    assert.deepEqual(error.details, { nearest: [] }, id)
    assert.ok(!error.message.replace(id, '').includes('hidden'), error.message)
  }
})
