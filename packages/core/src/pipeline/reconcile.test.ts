import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Result, ToolError } from '@gantry/contract'
import { createExecutor } from '../executor.ts'
import type { ExecutorOptions } from '../executor-options.ts'
import { defineTool } from '../tools/tool.ts'
import type { LookupFunction } from './lookup.ts'
import { alice, anything, never, tool } from './pipeline.fixture.ts'
import type { Reconciled } from './reconcile.ts'

const pay = (lookup: LookupFunction | undefined, rest: object = {}) =>
  tool(() => assert.fail('the tool ran'), { effect: 'reconcilable', ...(lookup && { lookup }), ...rest })

async function ask(lookup: LookupFunction | undefined, rest: object = {}, options: ExecutorOptions = {}) {
  const gantry = createExecutor({ tools: [pay(lookup, rest)], ...options })
  const answer = await gantry.reconcile('test:it', 'key-1', { callId: 'call-1' })
  await gantry.close()
  return answer
}

function resultIn(answer: Reconciled): Result {
  assert.ok(answer.state === 'found', JSON.stringify(answer))
  return answer.result
}

test('a lookup receives the key and the identity of the call, and its output becomes a Result', async () => {
  const seen: unknown[] = []
  const lookup: LookupFunction = async (key, { idempotencyKey, identity, callId }) => {
    seen.push([key, idempotencyKey, identity.principal, callId])
    return { found: true, output: { paid: 5 } }
  }
  const gantry = createExecutor({ tools: [pay(lookup)] })
  const result = resultIn(await gantry.reconcile('test:it', 'key-1', { callId: 'call-1', identity: alice }))
  assert.deepEqual(seen, [['key-1', 'key-1', 'alice', 'call-1']])
  assert.deepEqual(
    [result.callId, result.status, result.output, result.tool, result.attempts],
    ['call-1', 'ok', { paid: 5 }, { id: 'test:it', version: '1.0.0' }, 0],
  )
  assert.deepEqual(JSON.parse(JSON.stringify(result)), result)
  await gantry.close()
})

test('a sync or async lookup answers found, absent or unknown', async () => {
  assert.equal(resultIn(await ask(() => ({ found: true, output: 1 }))).output, 1)
  assert.deepEqual(await ask(() => ({ found: false })), { state: 'absent' })
  assert.deepEqual(await ask(async () => ({ found: false })), { state: 'absent' })
  const unsure = await ask(() => undefined)
  assert.deepEqual(unsure, { state: 'unknown', reason: 'The lookup of test:it:1.0.0 does not know the key.' })
})

test('a lookup that throws, is missing or answers malformed data leaves the outcome unknown, never absent', async () => {
  const boom = () => {
    throw new ToolError('BACKEND_UNAVAILABLE', 'The bank is closed.')
  }
  const wrong = [null, false, 'no', {}, { found: 'no' }, { found: 0 }, []].map((answer) => () => answer as never)
  for (const lookup of [boom, async () => boom(), ...wrong, undefined]) {
    assert.equal((await ask(lookup)).state, 'unknown', String(lookup))
  }
  assert.deepEqual(await ask(boom), { state: 'unknown', reason: 'The bank is closed.' })
  const none = await ask(undefined)
  assert.deepEqual(none, { state: 'unknown', reason: 'test:it:1.0.0 has no lookup function.' })
})

test('reconcile returns unknown when the lookup times out or the caller aborts', async () => {
  let aborted = false
  const slow: LookupFunction = (_key, { signal }) => {
    signal.addEventListener('abort', () => {
      aborted = true
    })
    return never()
  }
  const gantry = createExecutor({ tools: [pay(slow)] })
  const late = await gantry.reconcile('test:it', 'k', { timeoutMs: 5 })
  assert.deepEqual(late, { state: 'unknown', reason: 'The call did not end within 5 ms.' })
  assert.equal(aborted, true)
  const stop = new AbortController()
  const asking = gantry.reconcile('test:it', 'k', { signal: stop.signal })
  stop.abort()
  assert.equal((await asking).state, 'unknown')
  await gantry.close()
})

test('reconcile returns unknown for invalid options, an unknown tool and a closed executor', async () => {
  const gantry = createExecutor({ tools: [pay(() => ({ found: false }))] })
  assert.equal((await gantry.reconcile('test:other', 'k')).state, 'unknown')
  assert.equal((await gantry.reconcile('test:it', '')).state, 'unknown')
  assert.equal((await gantry.reconcile('test:it', 'k', { timeoutMs: 0 })).state, 'unknown')
  assert.equal((await gantry.reconcile('test:it', 'k')).state, 'absent')
  await gantry.close()
  const closed = await gantry.reconcile('test:it', 'k')
  assert.deepEqual(closed, { state: 'unknown', reason: 'The executor is closed.' })
})

test('the output of a lookup is redacted and validated like any output', async () => {
  const secrets = { BANK: 'tok-82f1c0' }
  const output = { sent: 'Bearer tok-82f1c0' }
  const reading: LookupFunction = (_key, context) => ({
    found: true,
    output: { sent: `Bearer ${context.secrets.BANK}` },
  })
  const withSecret = { secrets: ['BANK'] }
  assert.deepEqual(resultIn(await ask(reading, withSecret, { secrets })).output, { sent: 'Bearer [redacted]' })
  assert.deepEqual(resultIn(await ask(() => ({ found: true, output }))).output, output)
  const throwing: LookupFunction = (_key, context) => Promise.reject(new Error(`no ${context.secrets.BANK}`))
  assert.deepEqual(await ask(throwing, withSecret, { secrets }), { state: 'unknown', reason: 'no [redacted]' })
  assert.equal((await ask(reading, withSecret)).state, 'unknown')
  const schema = { outputSchema: { type: 'object', required: ['id'] } }
  const misfit: LookupFunction = () => ({ found: true, output: { n: 1 } })
  assert.equal(resultIn(await ask(misfit, schema)).warnings[0]?.code, 'OUTPUT_INVALID')
  assert.equal(resultIn(await ask(misfit, { ...schema, output: 'strict' })).error?.code, 'OUTPUT_INVALID')
})

test('a lookup that finds a failed call answers found, so that the call is not repeated', async () => {
  const failed = resultIn(await ask(() => ({ found: true, output: { success: false, error: 'no funds' } })))
  assert.deepEqual([failed.status, failed.error?.code, failed.error?.message], ['failed', 'BACKEND_FAILED', 'no funds'])
  const strange = resultIn(await ask(() => ({ found: true, output: { n: Number.NaN } })))
  assert.equal(strange.error?.code, 'OUTPUT_INVALID')
})

test('a tool of a remote backend can have a local lookup, which an update replaces', async () => {
  const shared = {
    namespace: 'test',
    name: 'it',
    description: 'It.',
    inputSchema: anything,
    effect: 'reconcilable',
  } as const
  const at = (found: boolean) =>
    defineTool({
      ...shared,
      backends: [{ kind: 'http', path: '/' }],
      lookup: () => ({ found, output: found }) as never,
    })
  const gantry = createExecutor({ tools: [at(true)] })
  assert.equal((await gantry.reconcile('test:it', 'k')).state, 'found')
  gantry.update(at(false))
  assert.equal((await gantry.reconcile('test:it', 'k')).state, 'absent')
  gantry.update(defineTool({ ...shared, backends: [{ kind: 'http', path: '/' }] }))
  assert.equal((await gantry.reconcile('test:it', 'k')).state, 'unknown')
  await gantry.close()
})

test('defineTool accepts a lookup only for the effect reconcilable', () => {
  const message = /\/lookup is asked only of a tool whose effect is 'reconcilable'/
  assert.throws(() => tool(() => 1, { lookup: () => undefined }), message)
  assert.throws(() => tool(() => 1, { effect: 'once', lookup: () => undefined }), message)
  assert.throws(() => tool(() => 1, { effect: 'reconcilable', lookup: 5 as never }), /\/lookup must be a function/)
})
