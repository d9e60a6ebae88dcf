import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EffectClass, Json, Result } from '@gantry/contract'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { memoryAudit } from '../audits/memory.ts'
import type { RunOptions } from '../executor-interface.ts'
import { defineTool, type ToolDefinition } from '../tools/tool.ts'
import { alice, anything } from './pipeline.fixture.ts'

const ledger = (): string[] => []

/** Adds an action to the ledger and returns the answer. */
function noted<T>(did: string[], what: string, answer: T): T {
  did.push(what)
  return answer
}
const record = (output: Json, rest: Partial<Result> = {}): NonNullable<RunOptions['recorded']> => ({
  output,
  content: [],
  ...rest,
})

/** Makes a dry run of `test:it`; every action goes to the ledger `did`. */
async function dry(
  did: string[],
  options: RunOptions,
  definition: Partial<ToolDefinition<typeof anything>> = {},
  rest: ExecutorOptions = {},
): Promise<Result> {
  const run = (): string => noted(did, 'ran', 'fresh')
  const given = { namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, run, ...definition }
  const gantry = createExecutor({ tools: [defineTool(given)], ...rest })
  gantry.on('call:finished', () => did.push('finished'))
  gantry.on('call:started', () => did.push('started'))
  try {
    return await gantry.run('test:it', {}, options)
  } finally {
    await gantry.close()
  }
}

for (const effect of [
  'read',
  'keyed',
  'reconcilable',
  'once',
  'repeatable',
] as const satisfies readonly EffectClass[]) {
  test(`a dry run returns the recorded output of a tool with effect ${effect} and does not run it`, async () => {
    const did = ledger()
    const audit = memoryAudit()
    const lookup = effect === 'reconcilable' ? { lookup: () => noted(did, 'looked up', undefined) } : {}
    const tool = { effect, secrets: ['token'], concurrency: 1, retry: { attempts: 3 }, ...lookup }
    const secrets = { get: async () => noted(did, 'secret', 'not to be fetched') }
    const result = await dry(did, { recorded: record({ kept: 1 }) }, tool, { audit, secrets })
    assert.equal(result.status, 'ok')
    assert.deepEqual(result.output, { kept: 1 })
    assert.equal(result.attempts, 0)
    assert.deepEqual(did, [])
    assert.deepEqual(audit.records(), [])
  })
}

test('the ledger of these tests notices a tool that runs without a record', async () => {
  const did = ledger()
  assert.equal((await dry(did, {})).output, 'fresh')
  assert.deepEqual(did, ['started', 'ran', 'finished'])
})

test('a recorded option of undefined is refused, and the tool does not run', async () => {
  const did = ledger()
  const result = await dry(did, { recorded: undefined } as unknown as RunOptions)
  assert.equal(result.error?.code, 'INPUT_INVALID')
  assert.match(result.error?.message ?? '', /\/recorded/)
  assert.ok(!did.includes('ran'))
})

test('a dry run without a record returns OUTCOME_UNKNOWN and does not run the tool', async () => {
  const did = ledger()
  const result = await dry(did, { recorded: null })
  assert.deepEqual([result.status, result.error?.code, result.error?.effect], ['unknown', 'OUTCOME_UNKNOWN', 'none'])
  assert.deepEqual(did, [])
})

test('a record of a call that was refused before execution gives OUTCOME_UNKNOWN', async () => {
  const error = { code: 'DENIED', message: 'No.', stage: 'authorize', retryable: false, effect: 'none' } as const
  const result = await dry(ledger(), { recorded: record(null, { error }) })
  assert.equal(result.error?.code, 'OUTCOME_UNKNOWN')
})

test('a dry run returns a recorded failure with its message, cause and output', async () => {
  const error = {
    ...({
      code: 'BACKEND_FAILED',
      message: 'It broke.',
      stage: 'execute',
      retryable: true,
      effect: 'possible',
    } as const),
    cause: { name: 'TypeError', message: 'x is not y' },
  }
  const result = await dry(ledger(), { recorded: record({ exitCode: 3 }, { error }) })
  assert.deepEqual(result.output, { exitCode: 3 })
  assert.equal(result.error?.message, 'It broke.')
  assert.deepEqual(result.error?.cause, { name: 'TypeError', message: 'x is not y' })
  assert.equal(result.error?.effect, 'none')
})

test('a recorded output is not checked again for a failure by structure', async () => {
  const result = await dry(ledger(), { recorded: record({ exitCode: 3 }) })
  assert.equal(result.status, 'ok')
})

test('a recorded output is validated against the current output schema', async () => {
  const strict = { outputSchema: { type: 'object', required: ['n'] }, output: 'strict' } as const
  const wrong = await dry(ledger(), { recorded: record({}) }, strict)
  assert.equal(wrong.error?.code, 'OUTPUT_INVALID')
  const error = { ...wrong.error } as NonNullable<Result['error']>
  assert.equal((await dry(ledger(), { recorded: record({ n: 1 }, { error }) }, strict)).status, 'ok')
})

test('a dry run applies the current permissions and policy, and requests no approval', async () => {
  const did = ledger()
  const approver = { approve: async () => noted(did, 'asked', { approved: true, by: 'bob' }) }
  const options = { recorded: record('kept'), identity: alice }
  const asked = await dry(did, options, { approval: 'always' }, { approver })
  assert.deepEqual([asked.status, asked.warnings[0]?.code], ['ok', 'APPROVAL_REQUIRED'])
  const denied = await dry(did, options, { permissions: ['files:write'] })
  assert.equal(denied.error?.code, 'DENIED')
  const policy = { rules: [{ deny: 'test:*', reason: 'It is closed.' }] }
  assert.equal((await dry(did, options, {}, { policy })).error?.code, 'DENIED')
  assert.deepEqual(did, [])
})

test('a dry run starts no discovery, and its error names the backend whose tools are not discovered', async () => {
  const did = ledger()
  const backend = {
    ...{ kind: 'far', name: 'away', call: () => did.push('called') },
    discover: async () => void did.push('discovered'),
  }
  const gantry = createExecutor({ backends: [backend] })
  const before = await gantry.run('away:it', {}, { recorded: record(1) })
  assert.equal(before.error?.code, 'BACKEND_UNAVAILABLE')
  assert.match(before.error?.message ?? '', /far:away are not discovered yet/)
  assert.deepEqual(did, [])
  await gantry.ready()
  assert.equal((await gantry.run('away:it', {}, { recorded: record(1) })).error?.code, 'TOOL_NOT_FOUND')
  assert.deepEqual(did, ['discovered'])
  await gantry.close()
})

test('runOrThrow throws the error of a dry run', async () => {
  const gantry = createExecutor()
  await assert.rejects(gantry.runOrThrow('no:tool', {}, { recorded: null }), { code: 'TOOL_NOT_FOUND' })
  await gantry.close()
})
