import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Result, ToolError } from '@gantry/contract'
import { demoTools } from '@gantry/tools/internal/demo'
import Type from 'typebox'
import * as v from 'valibot'
import { z } from 'zod'
import { createExecutor } from './executor.ts'
import { defineTool } from './tools/tool.ts'

const add = defineTool({
  namespace: 'math',
  name: 'add',
  version: '1.0.0',
  description: 'Adds two numbers',
  inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  effect: 'read',
  timeoutMs: 5_000,
  run: ({ a, b }) => ({ result: a + b }),
})

function issuePaths(result: Result): string[] {
  const issues = result.error?.details?.issues as { path: string }[] | undefined
  return (issues ?? []).map(({ path }) => path)
}

test('the example of the documentation runs', async () => {
  const gantry = createExecutor({ tools: [add] })
  const result = await gantry.run('math:add', { a: 5, b: 3 })
  assert.equal(result.status, 'ok')
  assert.deepEqual(result.output, { result: 8 })
  const kinds = []
  for await (const event of gantry.stream('math:add', { a: 5, b: 3 })) kinds.push(event.kind)
  assert.deepEqual(kinds, ['done'])
  await gantry.close()
})

test('an invalid argument error lists every failing path with its constraint', async () => {
  const result = await createExecutor({ tools: [add] }).run('math:add', { a: '5' })
  assert.equal(result.error?.code, 'INPUT_INVALID')
  const issues = result.error?.details?.issues as { path: string; keyword: string; schemaPath: string }[]
  assert.deepEqual(issues.map(({ path, keyword }) => `${path} ${keyword}`).sort(), [' required', '/a type'])
  assert.ok(issues.every(({ schemaPath }) => schemaPath.startsWith('/')))
})

test('zod, valibot and typebox schemas are accepted, and the tool receives their values', async () => {
  const common = { namespace: 'math', description: 'Doubles.', effect: 'read' } as const
  const gantry = createExecutor({
    tools: [
      defineTool({
        ...common,
        name: 'zod',
        inputSchema: z.object({ n: z.number().default(4) }),
        run: ({ n }) => n * 2,
      }),
      defineTool({ ...common, name: 'valibot', inputSchema: v.object({ n: v.number() }), run: ({ n }) => n * 2 }),
      defineTool({
        ...common,
        name: 'async',
        inputSchema: z.object({ n: z.number().refine(async (n) => n > 1) }),
        run: ({ n }) => n * 2,
      }),
      defineTool({
        ...common,
        name: 'typebox',
        inputSchema: Type.Object({ n: Type.Number() }),
        run: (args) => Number(args.n) * 2,
      }),
    ],
  })
  for (const name of ['zod', 'valibot', 'typebox', 'async']) {
    assert.equal((await gantry.run(`math:${name}`, { n: 4 })).output, 8, name)
    const wrong = await gantry.run(`math:${name}`, { n: 'x' })
    assert.equal(wrong.error?.code, 'INPUT_INVALID', name)
    assert.deepEqual(issuePaths(wrong), ['/n'], name)
  }
  assert.equal((await gantry.run('math:async', { n: 1 })).error?.code, 'INPUT_INVALID')
  assert.equal((await gantry.run('math:zod', {})).output, 8)
  const doc = await gantry.describe('math:zod', { level: 'schema' })
  assert.equal(JSON.stringify(doc).includes('"number"'), true)
})

test('runOrThrow throws a ToolError with the result, the code and the original cause', async () => {
  const boom = new RangeError('boom')
  const gantry = createExecutor({
    tools: [
      defineTool({
        namespace: 'test',
        name: 'boom',
        description: 'Booms.',
        inputSchema: { type: 'object' },
        run: () => {
          throw boom
        },
      }),
    ],
  })
  await assert.rejects(gantry.runOrThrow('test:boom'), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'BACKEND_FAILED')
    assert.equal(error.cause, boom)
    assert.equal(error.result?.status, 'failed')
    return true
  })
  assert.equal((await createExecutor({ tools: [add] }).runOrThrow('math:add', { a: 1, b: 1 })).status, 'ok')
})

test('the error for an unknown tool lists the nearest names', async () => {
  const result = await createExecutor({ tools: demoTools() }).run('demo:ad', {})
  assert.equal(result.error?.code, 'TOOL_NOT_FOUND')
  assert.equal((result.error?.details?.nearest as string[] | undefined)?.[0], 'demo:add')
})

test('an id that is not a string is TOOL_ID_INVALID', async () => {
  const gantry = createExecutor()
  for (const id of [undefined, null, 5, {}, '', 'nocolon', 'a:b:c:d', '../x:y']) {
    assert.equal((await gantry.run(id as string)).error?.code, 'TOOL_ID_INVALID', String(id))
  }
})

test('search and describe find only tools that are visible to the caller', async () => {
  const hidden = defineTool({ ...add.tool, name: 'secret_add', permissions: ['math:secret'], run: () => 1 })
  const gantry = createExecutor({ tools: [add, hidden], policy: { default: 'allow', rules: [] } })
  const bob = { principal: 'bob', tenant: 't', permissions: [] }
  const found = await gantry.search('add numbers', { identity: bob })
  assert.deepEqual(
    found.items.map(({ id }) => id),
    ['math:add'],
  )
  assert.equal((await gantry.search('add numbers')).items.length, 2)
  await assert.rejects(gantry.describe('math:secret_add', { identity: bob }), { code: 'TOOL_NOT_FOUND' })
  assert.equal(gantry.tools({ identity: bob }).items.length, 1)
})

test('tools can be registered and removed at run time, and two versions run side by side', async () => {
  const gantry = createExecutor({ tools: [add] })
  gantry.register(defineTool({ ...add.tool, version: '2.0.0', inputSchema: { type: 'object' }, run: () => 'two' }))
  assert.equal((await gantry.run('math:add')).output, 'two')
  assert.deepEqual((await gantry.run('math:add:^1', { a: 1, b: 1 })).output, { result: 2 })
  gantry.update(defineTool({ ...add.tool, version: '2.0.0', inputSchema: { type: 'object' }, run: () => 'repaired' }))
  assert.equal((await gantry.run('math:add')).output, 'repaired')
  assert.equal(gantry.unregister('math:add:2.0.0'), true)
  assert.deepEqual((await gantry.run('math:add', { a: 1, b: 1 })).output, { result: 2 })
  assert.equal(gantry.unregister('math:add'), true)
  assert.equal((await gantry.run('math:add')).error?.code, 'TOOL_NOT_FOUND')
})

test('invalid executor options are refused with a suggestion', () => {
  const wrong = (options: object, pattern: RegExp) =>
    assert.throws(
      () => createExecutor(options),
      (error) => ToolError.is(error) && pattern.test(error.message),
    )
  wrong({ tool: [add] }, /\/tool is not an option \(did you mean "tools"\?\)/)
  wrong({ limits: { timeoutMS: 5 } }, /did you mean "timeoutMs"\?/)
  wrong({ limits: { timeoutMs: 0 } }, /\/limits\/timeoutMs must be a number above 0/)
  for (const [key, value] of Object.entries({
    tools: 5,
    policy: {},
    format: 'asert',
    identity: {},
    audit: {},
    secrets: 5,
  })) {
    wrong({ [key]: value }, new RegExp(`/${key} must be`))
  }
  wrong(null as never, /Invalid options of createExecutor: it must be an object/)
})

test('invalid tools are refused with the path of the fault', () => {
  const wrong = (definition: object, pattern: RegExp) =>
    assert.throws(
      () => createExecutor({ tools: [defineTool(definition as Parameters<typeof defineTool>[0])] }),
      (error) => ToolError.is(error) && pattern.test(`${error.code} ${JSON.stringify(error.details)}`),
      pattern.source,
    )
  const base = { namespace: 'test', name: 'it', description: 'It.', inputSchema: { type: 'object' }, run: () => 1 }
  wrong({ ...base, inputSchema: undefined }, /inputSchema/)
  wrong({ ...base, inputSchema: { type: 'strng' } }, /SCHEMA_INVALID|strng|type/)
  wrong({ ...base, name: 'a/b' }, /name/)
  wrong({ ...base, version: 'one' }, /version/)
  wrong({ ...base, effect: 'never' }, /effect/)
  wrong({ ...base, run: undefined }, /run/)
  wrong({ ...base, run: 'text' }, /run/)
})

test('a closing executor refuses new calls and waits for running ones', async () => {
  const gate = Promise.withResolvers<string>()
  const slow = defineTool({
    namespace: 'test',
    name: 'slow',
    description: 'Slow.',
    inputSchema: { type: 'object' },
    run: () => gate.promise,
  })
  const gantry = createExecutor({ tools: [slow] })
  const running = gantry.run('test:slow')
  const closing = gantry.close()
  assert.equal((await gantry.run('test:slow')).error?.code, 'BACKEND_UNAVAILABLE')
  gate.resolve('finished')
  assert.equal((await running).output, 'finished')
  await closing
  await gantry.close()
})

test('close cancels calls that outlast the grace period, and closes the backends', async () => {
  let closed = 0
  const stuck = defineTool({
    namespace: 'test',
    name: 'stuck',
    description: 'Stuck.',
    inputSchema: { type: 'object' },
    run: () => new Promise(() => undefined),
  })
  const backend = {
    kind: 'fake',
    name: 'fake',
    call: () => null,
    close: async () => {
      closed += 1
    },
  }
  const gantry = createExecutor({ tools: [stuck], backends: [backend] })
  const running = gantry.run('test:stuck')
  await gantry.close({ graceMs: 5 })
  assert.equal((await running).status, 'cancelled')
  assert.equal(closed, 1)
})

test('a chain runs its steps through the executor', async () => {
  const gantry = createExecutor({ tools: [add] })
  const chain = await gantry.chain([
    { id: 'first', tool: 'math:add', args: { a: 1, b: 2 } },
    { tool: 'math:add', args: { a: '{{steps.first.output.result}}', b: 10 } },
  ])
  assert.equal(chain.status, 'ok')
  assert.deepEqual(chain.output, { result: 13 })
})

test('a listener that throws does not fail the call', async () => {
  const gantry = createExecutor({ tools: [add] })
  const off = gantry.on('call:finished', () => {
    throw new Error('listener')
  })
  const warned = new Promise((resolve) => process.once('warning', resolve))
  assert.equal((await gantry.run('math:add', { a: 1, b: 1 })).status, 'ok')
  await warned
  off()
})

test('update replaces the validator and the function of a tool, and a second register is refused', async () => {
  const numbered = (least: number, answer: string) =>
    defineTool({
      namespace: 'test',
      name: 'it',
      description: 'It.',
      inputSchema: z.object({ n: z.number().refine((n) => n >= least) }),
      run: () => answer,
    })
  const gantry = createExecutor({ tools: [numbered(5, 'old')] })
  assert.equal((await gantry.run('test:it', { n: 1 })).error?.code, 'INPUT_INVALID')
  assert.throws(() => gantry.register(numbered(1, 'other')), { code: 'TOOL_INVALID' })
  assert.equal((await gantry.run('test:it', { n: 9 })).output, 'old')
  gantry.update(numbered(1, 'new'))
  assert.equal((await gantry.run('test:it', { n: 1 })).output, 'new')
})

test('unknown call options and event names are refused', async () => {
  const gantry = createExecutor({ tools: [add] })
  const result = await gantry.run('math:add', { a: 1, b: 1 }, { timeout: 5 } as never)
  assert.match(result.error?.message ?? '', /\/timeout is not an option \(did you mean "timeoutMs"\?\)/)
  assert.throws(() => gantry.on('call:finishd' as never, () => undefined), /no event call:finishd/)
})

test('a binding needs no name when there is one backend of its kind', async () => {
  const remote = defineTool({ ...add.tool, name: 'far', backends: [{ kind: 'mine' }] })
  const one = { kind: 'mine', name: 'm1', call: () => 'far away' }
  assert.equal(
    (await createExecutor({ tools: [remote], backends: [one] }).run('math:far', { a: 1, b: 1 })).output,
    'far away',
  )
  const two = createExecutor({ tools: [remote], backends: [one, { ...one, name: 'm2' }] })
  assert.equal((await two.run('math:far', { a: 1, b: 1 })).error?.code, 'NO_BACKEND')
})

test('close does not wait for a backend that ignores its signal or throws', async () => {
  let closed = 0
  const backend = (name: string, close: () => Promise<void>) => ({ kind: name, name, call: () => null, close })
  const gantry = createExecutor({
    backends: [
      backend('deaf', () => new Promise(() => undefined)),
      backend('rude', () => {
        throw new Error('no')
      }),
      backend('good', async () => {
        closed += 1
      }),
    ],
  })
  await gantry.close({ graceMs: 5 })
  assert.equal(closed, 1)
})
