import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { z } from 'zod'
import { memoryAudit } from '../audits/memory.ts'
import { defineTool } from '../tools/tool.ts'
import { alice, never, tool } from './pipeline.fixture.ts'

const sum = defineTool({
  namespace: 'math',
  name: 'sum',
  version: '1.2.3',
  description: 'Adds.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
  effect: 'keyed',
  timeoutMs: 4_000,
  concurrency: 2,
  run: ({ a }) => a,
})

function codeOf(error: unknown): string {
  return ToolError.is(error) ? error.code : String(error)
}

test('check describes an allowed call without running or auditing it', async () => {
  const audit = memoryAudit()
  let calls = 0
  const counted = { ...sum, run: () => ++calls }
  const gantry = createExecutor({ tools: [counted], audit })
  const args = { a: 1 }
  const { digest, callDigest, ...call } = await gantry.check('math:sum:^1.0.0', args, { identity: alice })
  assert.deepEqual(call, {
    id: 'math:sum:1.2.3',
    key: 'math:sum',
    version: '1.2.3',
    effect: 'keyed',
    timeoutMs: 4_000,
    concurrency: { key: 'math:sum', limit: 2 },
    asks: false,
    args: { a: 1 },
  })
  assert.notEqual(call.args, args)
  const entry = gantry.catalog.find('math:sum')
  assert.deepEqual([digest, callDigest], [entry.digest, entry.callDigest])
  assert.equal(calls, 0)
  assert.deepEqual(audit.records(), [])
  assert.equal((await gantry.run(call.id, call.args, { schemaDigest: digest })).output, 1)
  await gantry.close()
})

test('check reports the placement of a tool, and omits an empty one', async () => {
  const placed = async (placement?: { readonly [label: string]: string }) => {
    const gantry = createExecutor({ tools: [tool(() => 1, placement === undefined ? {} : { placement })] })
    return gantry.check('test:it', {})
  }
  assert.deepEqual((await placed({ zone: 'a', gpu: 'yes' })).placement, { zone: 'a', gpu: 'yes' })
  assert.equal('placement' in (await placed({})), false)
  assert.equal('placement' in (await placed()), false)
})

test('check reports the timeout that the call would get', async () => {
  const gantry = createExecutor({ tools: [sum, tool(() => 1)], limits: { timeoutMs: 700, maxTimeoutMs: 5_000 } })
  assert.equal((await gantry.check('test:it')).timeoutMs, 700)
  assert.equal((await gantry.check('math:sum', { a: 1 })).timeoutMs, 4_000)
  assert.equal((await gantry.check('math:sum', { a: 1 }, { timeoutMs: 9_000 })).timeoutMs, 5_000)
  assert.equal('concurrency' in (await gantry.check('test:it')), false)
  await gantry.close()
})

test('check throws the error that the call would end with', async () => {
  const policy = { rules: [{ deny: 'math:*', tenants: ['evil'] }, { allow: '*' }] }
  const guarded = tool(() => 1, { permissions: ['files:write'] })
  const gantry = createExecutor({ tools: [sum, guarded], policy })
  const cases: readonly [string, unknown, object, string][] = [
    ['nonsense', {}, {}, 'TOOL_ID_INVALID'],
    ['math:sun', {}, {}, 'TOOL_NOT_FOUND'],
    ['math:sum', { a: 'x' }, {}, 'INPUT_INVALID'],
    ['math:sum', { a: 1 }, { schemaDigest: 'other' }, 'CATALOG_STALE'],
    ['math:sum', { a: 1 }, { identity: { ...alice, tenant: 'evil' } }, 'DENIED'],
    ['test:it', {}, { identity: alice }, 'DENIED'],
    ['math:sum', { a: 1 }, { timeoutMs: -1 }, 'INPUT_INVALID'],
    ['math:sum', { a: 1 }, { signal: AbortSignal.abort() }, 'CANCELLED'],
  ]
  for (const [id, args, options, code] of cases) {
    const refused = await gantry.run(id, args, options)
    assert.equal(refused.error?.code, code)
    await assert.rejects(gantry.check(id, args, options), (error) => {
      assert.ok(ToolError.is(error))
      assert.deepEqual([error.code, error.message, error.effect], [code, refused.error?.message, 'none'])
      return true
    })
  }
  await gantry.close()
  await assert.rejects(gantry.check('math:sum', { a: 1 }), (error) => codeOf(error) === 'BACKEND_UNAVAILABLE')
})

test('check accepts a call that needs approval without requesting one', async () => {
  let asked = 0
  const approver = { approve: async () => ({ approved: ++asked > 0 }) }
  const always = createExecutor({ tools: [tool(() => 1, { approval: 'always' })], approver })
  assert.equal((await always.check('test:it')).asks, true)
  for (const decision of [{ effect: 'ask', reason: 'dear' }, { effect: 'ask' }]) {
    const policy = { decide: () => decision } as unknown as NonNullable<ExecutorOptions['policy']>
    const gantry = createExecutor({ tools: [tool(() => 1)], policy })
    assert.equal((await gantry.check('test:it')).asks, true)
    assert.equal((await gantry.run('test:it')).error?.code, 'APPROVAL_REQUIRED')
  }
  assert.equal(asked, 0)
})

test('check refuses the call when the policy fails or does not answer', async () => {
  const failing = createExecutor({
    tools: [tool(() => 1)],
    policy: { decide: () => Promise.reject(new Error('down')) },
  })
  await assert.rejects(failing.check('test:it'), (error) => codeOf(error) === 'POLICY_UNAVAILABLE')
  const unresponsive = createExecutor({ tools: [tool(() => 1)], policy: { decide: never } })
  await assert.rejects(unresponsive.check('test:it', {}, { timeoutMs: 5 }), (error) => codeOf(error) === 'TIMEOUT')
})

test('check passes transformed arguments to the policy and returns the original ones, so that they can be run later', async () => {
  const seen: unknown[] = []
  const convert = defineTool({
    namespace: 'math',
    name: 'convert',
    description: 'Takes a text that is a number.',
    inputSchema: z.object({ n: z.string().transform(Number) }),
    run: ({ n }) => n + 1,
  })
  const policy = {
    decide({ args }: { args: unknown }) {
      seen.push(args)
      return { effect: 'allow' } as const
    },
  }
  const gantry = createExecutor({ tools: [convert], policy })
  const { args } = await gantry.check('math:convert', { n: '41' })
  assert.deepEqual(args, { n: '41' })
  assert.deepEqual(seen, [{ n: 41 }])
  assert.equal((await gantry.run('math:convert', args)).output, 42)
  await gantry.close()
})
