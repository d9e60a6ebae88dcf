import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity, ToolError } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import type { AdmittedCall, CallInput } from '../storage/calls/call-store.ts'
import { admit } from './admit.ts'

const executor = createExecutor({
  tools: [
    defineTool({
      namespace: 'bank',
      name: 'pay',
      version: '2.1.0',
      description: 'Pays.',
      effect: 'once',
      concurrency: 1,
      concurrencyKey: 'bank',
      inputSchema: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] },
      run: () => assert.fail('nothing runs at admission'),
    }),
    defineTool({
      namespace: 'bank',
      name: 'close',
      version: '1.0.0',
      description: 'Closes.',
      permissions: ['bank:close'],
      inputSchema: { type: 'object' },
      run: () => assert.fail('nothing runs at admission'),
    }),
    ...(['zone', 'zone2', 'gpu'] as const).map((name) =>
      defineTool({
        namespace: 'at',
        name,
        description: 'Runs somewhere.',
        inputSchema: { type: 'object' },
        placement: name === 'gpu' ? { gpu: 'a100' } : { zone: name },
        run: () => assert.fail('nothing runs at admission'),
      }),
    ),
  ],
})
const ada = { principal: 'ada', tenant: 'acme', permissions: [] }

function take(input: Partial<CallInput>): Promise<AdmittedCall> {
  return admit({ kind: 'call', tool: 'bank:pay', args: { sum: 1 }, ...input }, ada, {
    executor,
    newId: () => 'c-1',
    now: () => Date.parse('2026-01-01T00:00:00Z'),
    keep: async (payload) => ({ payload, payloadBytes: payload.length }),
  })
}

test('admission pins a call to the current version and digest of its tool, with its effect class and its slot', async () => {
  const call = await take({ idempotencyKey: 'k', priority: 5, timeoutMs: 100, delayMs: 10 })
  const { fingerprint, digest, ...plain } = call
  assert.match(fingerprint, /^[0-9a-f]{64}$/)
  const entry = executor.catalog.find('bank:pay')
  assert.equal(digest, entry.callDigest)
  assert.equal((await take({ schemaDigest: entry.digest })).digest, entry.digest, 'what the caller pinned')
  assert.deepEqual(plain, {
    callId: 'c-1',
    kind: 'call',
    identity: ada,
    tool: 'bank:pay:2.1.0',
    effect: 'once',
    slot: { key: 'bank', limit: 1 },
    payload: '{"sum":1}',
    payloadBytes: 9,
    key: 'k',
    priority: 5,
    timeoutMs: 100,
    delayMs: 10,
  })
})

test('the fingerprint covers the tool and the arguments, and not the order of keys, the idempotency key or the priority', async () => {
  const prints = await Promise.all([
    take({ args: { sum: 1, note: 'x' }, idempotencyKey: 'k' }),
    take({ args: { note: 'x', sum: 1 }, idempotencyKey: 'other', priority: 9 }),
    take({ args: { sum: 2, note: 'x' }, idempotencyKey: 'k' }),
    take({ args: { sum: 1, note: 'x' }, tool: 'bank:pay:2.1.0', idempotencyKey: 'k' }),
  ])
  const [one, same, args, tool] = prints.map(({ fingerprint }) => fingerprint)
  assert.equal(same, one)
  assert.notEqual(args, one)
  assert.notEqual(tool, one)
})

const refused: readonly (readonly [string, Partial<CallInput>, string, string?])[] = [
  ['a tool that does not exist', { tool: 'bank:stea1' }, 'TOOL_NOT_FOUND'],
  ['arguments that do not match the schema', { args: {} }, 'INPUT_INVALID'],
  ['a caller without the permission', { tool: 'bank:close', args: {} }, 'DENIED'],
  ['a definition that the caller did not see', { schemaDigest: 'old' }, 'CATALOG_STALE'],
  ['a key with a NUL in it', { idempotencyKey: 'a\u0000b' }, 'PAYLOAD_INVALID', '/idempotencyKey'],
  ['a key that is too long', { idempotencyKey: 'a'.repeat(201) }, 'PAYLOAD_INVALID', '/idempotencyKey'],
  ['a lone surrogate in a key', { idempotencyKey: '\ud800' }, 'PAYLOAD_INVALID', '/idempotencyKey'],
  ['a priority that is not a whole number', { priority: 1.5 }, 'PAYLOAD_INVALID', '/priority'],
  ['a timeout of zero', { timeoutMs: 0 }, 'PAYLOAD_INVALID', '/timeoutMs'],
  ['a delay over the limit', { delayMs: 1e12 }, 'PAYLOAD_INVALID', '/delayMs'],
  ['a deadline that is not a time', { deadline: 'tomorrow' }, 'PAYLOAD_INVALID', '/deadline'],
  ['a deadline that has passed', { deadline: '2025-12-31T00:00:00Z' }, 'PAYLOAD_INVALID', '/deadline'],
  ['a chain without steps', { kind: 'chain', args: { steps: [{}] } }, 'CHAIN_INVALID'],
]

for (const [what, input, code, path] of refused) {
  test(`admission refuses before it stores anything: ${what}`, async () => {
    await assert.rejects(take(input), (error: ToolError) => {
      assert.equal(error.code, code)
      if (path !== undefined) assert.equal(error.details?.issues?.[0]?.path, path)
      return true
    })
  })
}

test('admission makes a chain repeatable, because its steps are recorded', async () => {
  const { tool, effect, payload } = await take({ kind: 'chain', args: { steps: [{ tool: 'bank:pay', args: {} }] } })
  assert.deepEqual([tool, effect], ['chain', 'repeatable'])
  assert.deepEqual(JSON.parse(payload ?? ''), { steps: [{ tool: 'bank:pay', args: {} }], input: null })
})

test('admission gives a call the placement of its tool, and a chain the labels of all its tools', async () => {
  const placed = async (input: Partial<CallInput>) => (await take(input)).placement
  const chain = (...steps: readonly object[]) => placed({ kind: 'chain', args: { steps } })
  assert.deepEqual(await placed({ tool: 'at:zone', args: {} }), { zone: 'zone' })
  assert.equal(await placed({}), undefined)
  const group = { parallel: [{ tool: 'bank:pay' }, { tool: 'at:gpu' }] }
  assert.deepEqual(await chain({ tool: 'at:zone' }, group, { tool: 'at:zone' }), { zone: 'zone', gpu: 'a100' })
  assert.equal(await chain({ tool: 'bank:pay' }, { tool: 'not:there' }), undefined)
  await assert.rejects(chain({ tool: 'at:zone' }, { tool: 'at:zone2' }), (error: ToolError) => {
    assert.deepEqual([error.code, error.details?.issues?.[0]?.path], ['CHAIN_INVALID', '/1'])
    return true
  })
})

test('admission charges a chain for each of its steps, and nothing for tools that are hidden from its caller', async () => {
  const costly = (namespace: string) =>
    defineTool({
      namespace,
      name: 'dear',
      description: 'Costs.',
      inputSchema: { type: 'object' },
      cost: 5,
      run: () => assert.fail('nothing runs at admission'),
    })
  const charged: number[] = []
  const spend = (tool: string, identity: Identity) =>
    admit(
      {
        kind: 'chain',
        args: {
          steps: [
            { tool, args: {} },
            { tool: 'own:dear', args: {} },
          ],
        },
      },
      identity,
      {
        executor: createExecutor({ tools: [costly('own'), costly('hidden')] }),
        newId: () => 'c-1',
        now: () => 0,
        charge: async (cost) => void charged.push(cost),
        keep: async (payload) => ({ payload, payloadBytes: payload.length }),
      },
    )
  await spend('hidden:dear', { ...ada, tools: ['own:*'] })
  await spend('not:there', { ...ada, tools: ['own:*'] })
  await spend('hidden:dear', ada)
  assert.deepEqual(charged, [5, 5, 10])
})

test('admission converts a deadline to the milliseconds that are left', async () => {
  assert.equal((await take({ deadline: '2026-01-01T00:01:00Z' })).deadlineMs, 60_000)
})
