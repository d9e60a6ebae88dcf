import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EffectClass, Json, Result } from '@gantry/contract'
import type { ExecutorOptions } from '@gantry/tools'
import { createExecutor } from '@gantry/tools'
import { memoryAudit } from '../audits/memory.ts'
import type { RunOptions } from '../run-options.ts'
import { defineTool, type ToolDefinition } from '../tools/tool.ts'
import { alice, anything } from './pipeline.fixture.ts'

const ledger = (): string[] => []

/** Writes down that something was done, and answers as it would. */
function noted<T>(did: string[], what: string, answer: T): T {
  did.push(what)
  return answer
}
const record = (output: Json, rest: Partial<Result> = {}): NonNullable<RunOptions['recorded']> => ({
  output,
  content: [],
  ...rest,
})

/** Runs `test:it` dry; whatever it would do is written into `did`. */
async function dry(
  did: string[],
  options: RunOptions,
  definition: Partial<ToolDefinition<typeof anything>> = {},
  rest: ExecutorOptions = {},
): Promise<Result> {
  const run = (): string => noted(did, 'ran', 'fresh')
  const told = { namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, run, ...definition }
  const gantry = createExecutor({ tools: [defineTool(told)], ...rest })
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
  test(`a record stands in for a tool of the effect ${effect}, which does not run`, async () => {
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

test('the same tool does run when there is no record to stand in, so that the ledger can tell', async () => {
  const did = ledger()
  assert.equal((await dry(did, {})).output, 'fresh')
  assert.deepEqual(did, ['started', 'ran', 'finished'])
})

test('a record that was looked for and not found is refused, and is not a call', async () => {
  const did = ledger()
  const result = await dry(did, { recorded: undefined } as unknown as RunOptions)
  assert.equal(result.error?.code, 'INPUT_INVALID')
  assert.match(result.error?.message ?? '', /\/recorded/)
  assert.ok(!did.includes('ran'))
})

test('where nothing is known of a call, nothing is made up and nothing runs', async () => {
  const did = ledger()
  const result = await dry(did, { recorded: null })
  assert.deepEqual([result.status, result.error?.code, result.error?.effect], ['unknown', 'OUTCOME_UNKNOWN', 'none'])
  assert.deepEqual(did, [])
})

test('the record of a call that was refused before its tool ran says nothing of the tool', async () => {
  const error = { code: 'DENIED', message: 'No.', stage: 'authorize', retryable: false, effect: 'none' } as const
  const result = await dry(ledger(), { recorded: record(null, { error }) })
  assert.equal(result.error?.code, 'OUTCOME_UNKNOWN')
})

test('a recorded failure is the failure again, with its words, its stage and its output', async () => {
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

test('an output that says by its structure that a tool failed is not judged a second time', async () => {
  const result = await dry(ledger(), { recorded: record({ exitCode: 3 }) })
  assert.equal(result.status, 'ok')
})

test('the output is held against the schema of today, whatever was said of it then', async () => {
  const strict = { outputSchema: { type: 'object', required: ['n'] }, output: 'strict' } as const
  const wrong = await dry(ledger(), { recorded: record({}) }, strict)
  assert.equal(wrong.error?.code, 'OUTPUT_INVALID')
  const error = { ...wrong.error } as NonNullable<Result['error']>
  assert.equal((await dry(ledger(), { recorded: record({ n: 1 }, { error }) }, strict)).status, 'ok')
})

test('permissions and the policy of today decide, and nobody is asked to approve', async () => {
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

test('a backend is not asked for its tools by a dry run, and the answer says why the tool is not there', async () => {
  const did = ledger()
  const backend = {
    ...{ kind: 'far', name: 'away', call: () => did.push('called') },
    discover: async () => void did.push('discovered'),
  }
  const gantry = createExecutor({ backends: [backend] })
  const before = await gantry.run('away:it', {}, { recorded: record(1) })
  assert.equal(before.error?.code, 'BACKEND_UNAVAILABLE')
  assert.match(before.error?.message ?? '', /far:away were not asked for yet/)
  assert.deepEqual(did, [])
  await gantry.ready()
  assert.equal((await gantry.run('away:it', {}, { recorded: record(1) })).error?.code, 'TOOL_NOT_FOUND')
  assert.deepEqual(did, ['discovered'])
  await gantry.close()
})

test('runOrThrow throws a recorded failure like one that just happened', async () => {
  const gantry = createExecutor()
  await assert.rejects(gantry.runOrThrow('no:tool', {}, { recorded: null }), { code: 'TOOL_NOT_FOUND' })
  await gantry.close()
})
