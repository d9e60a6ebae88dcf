import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChainResult, type Identity, type Json, type Result, ToolError } from '@gantry/contract'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { memoryAudit } from '../audits/memory.ts'
import type { ToolContext } from '../backends/backend.ts'
import { type DefinedTool, defineTool } from '../tools/tool.ts'
import { memoryTracer } from '../tracing/memory-tracer.fixture.ts'

const open = { type: 'object' } as const
const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['math:use'] }

const double = defineTool({
  ...{ namespace: 'math', name: 'double', description: 'Doubles a number.', effect: 'read', permissions: ['math:use'] },
  inputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
  run: ({ n }) => n * 2,
})

/** A tool that runs a function of the test with its context. */
function outer(run: (context: ToolContext, args: { [key: string]: Json }) => unknown, name = 'outer'): DefinedTool {
  return defineTool({
    ...{ namespace: 'test', name, description: 'Calls other tools.', inputSchema: open, effect: 'once' },
    run: (args, context) => run(context, args as { [key: string]: Json }),
  })
}

/** Runs a function with the context of a call of ada. */
async function within(
  run: (context: ToolContext) => unknown,
  options: ExecutorOptions = {},
  identity = ada,
): Promise<Result> {
  const gantry = createExecutor({ ...options, tools: [double, outer(run), ...(options.tools ?? [])] })
  try {
    return await gantry.run('test:outer', {}, { identity, callId: 'c' })
  } finally {
    await gantry.close()
  }
}

const isExceeded = (limit: string) => (error: unknown) =>
  ToolError.is(error) && error.code === 'LIMIT_EXCEEDED' && error.details?.limit === limit

test('an inner call has the identity of the caller, and its audit entries and trace name the outer call', async () => {
  const audit = memoryAudit()
  const tracer = memoryTracer()
  const { status, output } = await within(
    async ({ run }) => {
      const { callId, output } = await run('math:double', { n: 4 })
      return { callId, output }
    },
    { audit, tracer },
  )
  assert.deepEqual([status, output], ['ok', { callId: 'c.1', output: 8 }])
  const inner = audit.records().filter(({ callId }) => callId === 'c.1')
  assert.deepEqual(
    inner.map(({ phase, parent, principal }) => [phase, parent, principal]),
    [
      ['start', 'c', 'ada'],
      ['end', 'c', 'ada'],
    ],
  )
  assert.equal(audit.records().find(({ callId }) => callId === 'c')?.parent, undefined)
  assert.equal(tracer.spans.filter(({ name }) => name === 'gantry.call').length, 2)
  assert.equal(new Set(tracer.spans.map(({ traceId }) => traceId)).size, 1)
})

test('inner calls, chains and searches have only the permissions of the caller', async () => {
  const poor = { ...ada, permissions: [] }
  const { output } = await within(
    async ({ run, search, chain }) => {
      const called = await run('math:double', { n: 4 })
      const chained = await chain([{ tool: 'math:double', args: { n: 4 } }])
      const { items } = await search('double a number')
      return [called.error?.code, chained.error?.code, items.map(({ id }) => id)] as Json
    },
    {},
    poor,
  )
  assert.deepEqual(output, ['DENIED', 'DENIED', []])
})

test('policy and approvals apply to inner calls, and a pending approval refuses an inner call', async () => {
  const rule = (effect: 'deny' | 'ask'): NonNullable<ExecutorOptions['policy']> => ({
    rules: [effect === 'deny' ? { deny: 'math:*' } : { ask: 'math:*' }],
    default: 'allow',
  })
  const call = async ({ run }: ToolContext) => {
    const { error } = await run('math:double', { n: 1 })
    return [error?.code ?? null, error?.details?.approvalId ?? null] as Json
  }
  assert.deepEqual((await within(call, { policy: rule('deny') })).output, ['DENIED', null])
  const asked: string[] = []
  const approver = {
    approve: async ({ callId }: { callId: string }) => {
      asked.push(callId)
      return { approved: true, by: 'bob' }
    },
  }
  assert.deepEqual((await within(call, { policy: rule('ask'), approver })).output, [null, null])
  assert.deepEqual(asked, ['c.1'])
  const later = { ...approver, pends: true as const }
  assert.deepEqual((await within(call, { policy: rule('ask'), approver: later })).output, ['APPROVAL_REQUIRED', null])
  assert.deepEqual(asked, ['c.1'], 'no approval was requested in vain')
})

test('context.chain and context.search work like those of the executor', async () => {
  const { output } = await within(async ({ chain, search }) => {
    const result: ChainResult = await chain([
      { id: 'one', tool: 'math:double', args: { n: 1 } },
      { tool: 'math:double', args: { n: '{{steps.one.output}}' } },
    ])
    const { items } = await search('double a number', { limit: 1 })
    return { chained: result.output, ids: result.steps.map(({ id }) => id), found: items[0]?.id } as Json
  })
  assert.deepEqual(output, { chained: 4, ids: ['one', 'step2'], found: 'math:double' })
})

test('nested inner calls share one budget, and recursion is limited by depth', async () => {
  const recursive = outer(async ({ run }, { n }) => {
    const { output, error } = await run('test:again', { n: Number(n) + 1 })
    if (error !== undefined)
      throw new ToolError(error.code, error.message, error.details ? { details: error.details } : {})
    return output
  }, 'again')
  const deep = await within(({ run }) => run('test:again', { n: 1 }).then(({ error }) => error?.details as Json), {
    tools: [recursive],
  })
  assert.deepEqual(deep.output, { limit: 'innerDepth' })
  let made = 0
  const wide = outer(async ({ run }) => {
    for (;;) {
      await run('math:double', { n: 1 })
      made += 1
    }
  }, 'wide')
  await within(
    async ({ run }) => {
      await run('test:wide')
      await assert.rejects(run('math:double', { n: 1 }), isExceeded('innerCalls'))
      return null
    },
    { tools: [wide], limits: { innerCalls: 10 } },
  )
  assert.equal(made, 9, 'what an inner call makes is taken off the budget of the outer one')
})

test('inner calls of a tool that a program calls count against the budget of the program', async () => {
  const gantry = createExecutor({
    tools: [double, outer(async ({ run }) => (await run('math:double', { n: 2 })).output)],
  })
  const code = 'let n = 0; for (let i = 0; i < 9; i++) { try { n += await tools.test.outer({}) } catch {} } return n'
  const { status, error } = await gantry.code(code, { language: 'javascript', limits: { toolCalls: 4 }, identity: ada })
  assert.deepEqual([status, error?.code], ['failed', 'LIMIT_EXCEEDED'])
  await gantry.close()
})

test('inner calls are cancelled when their tool ends, and an ended tool can make none', async () => {
  const begun = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<unknown>()
  let late: ToolContext | undefined
  const slow = outer(async ({ signal }) => {
    begun.resolve()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    ended.resolve(signal.reason)
  }, 'slow')
  const { status } = await within(
    async (context) => {
      late = context
      void context.run('test:slow')
      await begun.promise
      return 'left it behind'
    },
    { tools: [slow] },
  )
  assert.equal(status, 'ok')
  await ended.promise
  await assert.rejects(async () => late?.run('math:double', { n: 1 }), { code: 'CANCELLED' })
  const stop = new AbortController()
  const stopped = await within(
    async ({ run }) => {
      const inner = run('test:slow', {}, { signal: stop.signal })
      stop.abort()
      return (await inner).status
    },
    { tools: [slow] },
  )
  assert.equal(stopped.output, 'cancelled')
  await within(async ({ run }) => {
    await assert.rejects(run('math:double', { n: 1 }, { identity: ada } as never), { code: 'INPUT_INVALID' })
    return null
  })
})

test('effects of an inner call belong to the outer call, and its idempotency key is the same in every attempt', async () => {
  const keys: string[] = []
  const noting = outer(({ idempotencyKey, send }) => {
    keys.push(idempotencyKey)
    send({ note: 'inside' })
    return null
  }, 'noting')
  const flaky = defineTool({
    ...{ namespace: 'test', name: 'flaky', description: 'Fails once.', inputSchema: open, effect: 'repeatable' },
    async run(_args, { run, attempt }) {
      await run('test:noting')
      if (attempt === 1) throw new ToolError('BACKEND_UNAVAILABLE', 'Not yet.')
      return null
    },
  })
  const gantry = createExecutor({ tools: [noting, flaky] })
  const retry = { attempts: 2, delayMs: 0 }
  const { effects } = await gantry.run('test:flaky', {}, { callId: 'c', idempotencyKey: 'k', retry })
  assert.deepEqual(keys, ['k.1', 'k.1'])
  assert.equal(effects.length, 2)
  await gantry.close()
})
