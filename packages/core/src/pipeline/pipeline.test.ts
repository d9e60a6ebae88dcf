import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, type Result, ToolError } from '@gantry/contract'
import * as v from 'valibot'
import { memoryAudit } from '../audits/memory.ts'
import { createExecutor } from '../executor.ts'
import type { ExecutorOptions } from '../executor-options.ts'
import { type DefinedTool, defineTool, type ToolDefinition } from '../tools/tool.ts'

const anything = { type: 'object' } as const
const alice: Identity = { principal: 'alice', tenant: 'acme', permissions: ['files:read'] }

/** A tool `test:it` with any arguments. */
function tool(
  run: ToolDefinition<typeof anything>['run'],
  rest: Partial<ToolDefinition<typeof anything>> = {},
): DefinedTool {
  return defineTool({
    namespace: 'test',
    name: 'it',
    description: 'It.',
    inputSchema: anything,
    run: run ?? (() => null),
    ...rest,
  })
}

async function runIt(defined: DefinedTool, args: unknown = {}, rest: ExecutorOptions = {}): Promise<Result> {
  const gantry = createExecutor({ tools: [defined], ...rest })
  const result = await gantry.run('test:it', args)
  await gantry.close()
  return result
}

test('a sync, an async and a thenable answer give the same result', async () => {
  for (const answer of [
    { n: 1 },
    Promise.resolve({ n: 1 }),
    { then: (ok: (value: unknown) => void) => ok({ n: 1 }) },
  ]) {
    const result = await runIt(tool(() => answer))
    assert.equal(result.status, 'ok')
    assert.deepEqual(result.output, { n: 1 })
    assert.equal(result.attempts, 1)
  }
})

test('a result names its tool, version and backend, and is plain JSON', async () => {
  const result = await runIt(tool(() => 1))
  assert.equal(result.tool?.id, 'test:it')
  assert.equal(result.tool?.version, '1.0.0')
  assert.deepEqual(result.backend, { kind: 'local', name: 'local' })
  assert.deepEqual(JSON.parse(JSON.stringify(result)), result)
})

test('a tool gets its own copy of the arguments', async () => {
  const args = { list: [1] }
  const result = await runIt(
    tool((given) => (given as { list: number[] }).list.push(2)),
    args,
  )
  assert.equal(result.output, 2)
  assert.deepEqual(args, { list: [1] })
})

test('a thrown error is the message and the cause of a failed result', async () => {
  const cause = new Error('disk full', { cause: new TypeError('deeper') })
  const result = await runIt(
    tool(() => {
      throw cause
    }),
  )
  assert.equal(result.status, 'failed')
  assert.equal(result.error?.code, 'BACKEND_FAILED')
  assert.equal(result.error?.message, 'disk full')
  assert.equal(result.error?.cause?.cause?.message, 'deeper')
  assert.equal(result.error?.effect, 'possible')
})

test('anything can be thrown, hostile objects included', async () => {
  const hostile = {
    toString() {
      throw new Error('no')
    },
  }
  for (const thrown of [undefined, null, 'text', 5, hostile, Symbol('s'), Object.create(null)]) {
    const result = await runIt(
      tool(() => {
        throw thrown
      }),
    )
    assert.equal(result.error?.code, 'BACKEND_FAILED')
    assert.equal(typeof result.error?.message, 'string')
  }
})

test('a tool may refuse with a code of its own', async () => {
  const result = await runIt(
    tool(() => {
      throw new ToolError('DENIED', 'not yours')
    }),
  )
  assert.equal(result.status, 'denied')
  assert.equal(result.error?.message, 'not yours')
})

test('a result says failed or denied by its structure, never by its words', async () => {
  const cases: [unknown, string][] = [
    [{ success: false, error: 'nope' }, 'failed'],
    [{ success: false, error: { code: 'DENIED', message: 'no' } }, 'denied'],
    [{ success: false, denied: true }, 'denied'],
    [{ exitCode: 2, stdout: '', stderr: 'bad' }, 'failed'],
    [{ isError: true, content: [{ type: 'text', text: 'broken' }] }, 'failed'],
    [{ success: true, note: 'permission denied' }, 'ok'],
    [{ text: 'access denied, unauthorized' }, 'ok'],
    [{ exitCode: 0, stdout: '', stderr: '' }, 'ok'],
    [{ exitCode: 3 }, 'failed'],
  ]
  for (const [output, status] of cases) {
    const result = await runIt(tool(() => output))
    assert.equal(result.status, status, JSON.stringify(output))
    if (!('content' in (output as object))) assert.deepEqual(result.output, output)
  }
})

test('MCP content is kept beside the output it stands for', async () => {
  const content = [
    { type: 'text', text: 'hello' },
    { type: 'image', data: 'aGk=', mimeType: 'image/png' },
  ]
  const structured = await runIt(tool(() => ({ content, structuredContent: { n: 1 } })))
  assert.deepEqual(structured.output, { n: 1 })
  assert.deepEqual(structured.content, content)
  assert.equal((await runIt(tool(() => ({ content })))).output, 'hello')
})

test('output that does not fit is kept with a warning, or fails a strict tool and is kept too', async () => {
  const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } as const
  const lenient = await runIt(tool(() => ({ n: 'x' }), { outputSchema }))
  assert.equal(lenient.status, 'ok')
  assert.equal(lenient.warnings[0]?.code, 'OUTPUT_INVALID')
  assert.equal(lenient.warnings[0]?.issues?.[0]?.path, '/n')
  const strict = await runIt(tool(() => ({ n: 'x' }), { outputSchema, output: 'strict' }))
  assert.equal(strict.error?.code, 'OUTPUT_INVALID')
  assert.deepEqual(strict.output, { n: 'x' })
})

test('output that is no JSON, or too much of it, is a failure that says where', async () => {
  const bad = await runIt(tool(() => ({ a: { b: 1n } })))
  assert.equal(bad.error?.code, 'OUTPUT_INVALID')
  assert.match(bad.error?.message ?? '', /\/a\/b/)
  const large = await runIt(
    tool(() => 'x'.repeat(2_000)),
    {},
    { limits: { resultBytes: 1_000 } },
  )
  assert.equal(large.error?.code, 'RESULT_TOO_LARGE')
  let deep: unknown = 1
  for (let level = 0; level < 10_000; level++) deep = { deep }
  assert.equal((await runIt(tool(() => deep))).error?.code, 'RESULT_TOO_LARGE')
})

test('a tool may ask for narrower limits than the executor, not for wider ones', async () => {
  const narrow = await runIt(tool(() => 'x'.repeat(50), { limits: { resultBytes: 10 } }))
  assert.equal(narrow.error?.code, 'RESULT_TOO_LARGE')
  const wide = tool(() => 'x'.repeat(50), { limits: { resultBytes: 1_000 } })
  assert.equal((await runIt(wide, {}, { limits: { resultBytes: 10 } })).error?.code, 'RESULT_TOO_LARGE')
})

test('arguments that are no object, too deep or too large never reach the tool', async () => {
  let calls = 0
  const counting = tool(() => ++calls)
  let deep: unknown = 1
  for (let level = 0; level < 10_000; level++) deep = { deep }
  for (const args of ['text', 5, null, [1], { n: Number.NaN }, { f: () => 1 }, deep, { big: 'x'.repeat(2_000_000) }]) {
    const result = await runIt(counting, args)
    assert.equal(result.error?.code, 'INPUT_INVALID')
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
  assert.equal((await runIt(counting, undefined)).status, 'ok')
})

test('a caller who saw another version of the schema is told so', async () => {
  const gantry = createExecutor({ tools: [tool(() => 1)] })
  const { digest } = gantry.catalog.find('test:it')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: digest })).status, 'ok')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: 'other' })).error?.code, 'CATALOG_STALE')
})

test('a tool whose backend is not there is refused and says what is missing', async () => {
  const remote = defineTool({
    namespace: 'test',
    name: 'it',
    description: 'It.',
    inputSchema: anything,
    backends: [{ kind: 'http', name: 'weather' }],
  })
  const result = await runIt(remote)
  assert.equal(result.error?.code, 'NO_BACKEND')
  assert.match(result.error?.message ?? '', /http:weather/)
})

test('a deprecated tool still runs and says what to use instead', async () => {
  const result = await runIt(tool(() => 1, { deprecated: { message: 'Old.', replacement: 'test:new' } }))
  assert.equal(result.status, 'ok')
  assert.equal(result.warnings[0]?.code, 'DEPRECATED')
  assert.match(result.warnings[0]?.message ?? '', /test:new/)
})

test('a permission that the caller lacks is a denial, and the tool is not started', async () => {
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

test('a call that needs approval waits for it, and without an approver is refused', async () => {
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

test('every call leaves its outcome on record, and every started tool its intent before', async () => {
  const audit = memoryAudit()
  const gantry = createExecutor({
    tools: [
      tool(() => {
        assert.equal(audit.records().length, 1)
        return 1
      }),
    ],
    audit,
  })
  await gantry.run('test:it', {}, { identity: alice })
  await gantry.run('test:nothing')
  const [start, end, missing] = audit.records()
  assert.deepEqual([start?.phase, end?.phase, missing?.phase], ['start', 'end', 'end'])
  assert.equal(start?.principal, 'alice')
  assert.equal(missing?.phase === 'end' && missing.code, 'TOOL_NOT_FOUND')
})

test('arguments of privileged calls are recorded without secrets', async () => {
  const audit = memoryAudit()
  await runIt(
    tool(() => 1, { permissions: ['x'] }),
    { user: 'a', login: { apiKey: 'k' } },
    { audit },
  )
  const [start] = audit.records()
  assert.deepEqual(start?.phase === 'start' && start.args, { user: 'a', login: { apiKey: '[redacted]' } })
})

test('nothing runs off the record: an audit that fails refuses the call', async () => {
  let calls = 0
  for (const write of [
    () => {
      throw new Error('down')
    },
    async () => {
      throw new Error('down')
    },
  ]) {
    const result = await runIt(
      tool(() => ++calls),
      {},
      { audit: { write } },
    )
    assert.equal(result.error?.code, 'AUDIT_UNAVAILABLE')
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
})

test('an outcome that cannot be recorded is a warning, because the tool has run', async () => {
  for (const fail of [
    () => {
      throw new Error('down')
    },
    async () => {
      throw new Error('down')
    },
  ]) {
    const result = await runIt(
      tool(() => 1),
      {},
      { audit: { write: ({ phase }) => (phase === 'end' ? fail() : undefined) } },
    )
    assert.equal(result.status, 'ok')
    assert.equal(result.warnings.at(-1)?.code, 'AUDIT_UNAVAILABLE')
  }
})

test('an audit that never answers holds up an outcome only for a while, and a call that waits for it ends in time', async () => {
  const never = () => new Promise<void>(() => undefined)
  const late = await runIt(
    tool(() => 1),
    {},
    { audit: { write: ({ phase }) => (phase === 'end' ? never() : undefined) }, limits: { auditMs: 5 } },
  )
  assert.equal(late.status, 'ok')
  assert.equal(late.warnings.at(-1)?.code, 'AUDIT_UNAVAILABLE')
  const stuck = await runIt(
    tool(() => 1),
    {},
    { audit: { write: ({ phase }) => (phase === 'start' ? never() : undefined) }, limits: { timeoutMs: 5 } },
  )
  assert.equal(stuck.status, 'timeout')
  assert.equal(stuck.error?.effect, 'none')
})

test('an error of another version of Gantry, with a code unknown here, is still a Result', async () => {
  const foreign = new ToolError('DENIED', 'from elsewhere')
  Object.defineProperty(foreign, 'code', { value: 'toString' })
  const result = await runIt(
    tool(() => {
      throw foreign
    }),
  )
  assert.equal(result.status, 'failed')
  assert.equal(result.error?.code, 'BACKEND_FAILED')
})

test('an approver that fails or answers nonsense lets nothing pass', async () => {
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

test('a tool that the caller may not see is not among the near names', async () => {
  const hidden = tool(() => 1, { permissions: ['secret'] })
  const gantry = createExecutor({ tools: [hidden], identity: alice })
  for (const id of ['test:itt', 'test:it:9.9.9']) {
    const { error } = await gantry.run(id)
    assert.equal(error?.code, 'TOOL_NOT_FOUND')
    assert.deepEqual(error?.details, { nearest: [] }, id)
    assert.ok(!/test:it\b(?!t|:9)/.test(error?.message ?? ''))
  }
  assert.deepEqual((await gantry.run('test:itt', {}, { identity: { ...alice, permissions: ['*'] } })).error?.details, {
    nearest: ['test:it'],
  })
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

test('an output schema of a vendor is checked by the vendor, and the output stays what the tool gave', async () => {
  const outputSchema = v.object({ n: v.pipe(v.number(), v.minValue(2)) })
  const good = await runIt(tool(() => ({ n: 2, more: true }), { outputSchema }))
  assert.deepEqual(good.output, { n: 2, more: true })
  assert.deepEqual(good.warnings, [])
  const bad = await runIt(tool(() => ({ n: 1 }), { outputSchema }))
  assert.equal(bad.warnings[0]?.issues?.[0]?.path, '/n')
})

test('whatever a tool throws, a call ends with one Result and one end on record', async () => {
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  const trap = new Proxy({}, { has: () => assert.fail('trap'), get: () => assert.fail('trap') })
  const marked = Symbol.for('gantry.error')
  const hostiles: (() => unknown)[] = [
    () => Object.defineProperty(new Error('x'), 'name', { get: () => assert.fail('name') }),
    () => Object.defineProperty(new Error('x'), 'cause', { get: () => assert.fail('cause') }),
    () => Object.assign(new Error('x'), { name: { toString: () => assert.fail('toString') } }),
    () => trap,
    () => revoked.proxy,
    () => ({ [marked]: true }),
    () => Object.assign(new ToolError('DENIED', 'x'), { message: { not: 'text' } }),
    () => Object.assign(new ToolError('DENIED', 'x'), { stage: 5, effect: 'maybe' }),
  ]
  for (const make of hostiles) {
    const audit = memoryAudit()
    const defined = tool(() => {
      throw make()
    })
    const gantry = createExecutor({ tools: [defined], audit })
    const result = await gantry.run('test:it')
    assert.equal(result.status, 'failed')
    assert.equal(result.error?.code, 'BACKEND_FAILED')
    assert.doesNotThrow(() => JSON.stringify(result))
    const events = []
    for await (const event of gantry.stream('test:it')) events.push(event.kind)
    assert.deepEqual(events, ['error'])
    assert.equal(audit.records().filter(({ phase }) => phase === 'end').length, 2)
  }
  const odd = await createExecutor().run(JSON.parse('{"toString":null}'))
  assert.equal(odd.error?.code, 'TOOL_ID_INVALID')
})

test("an error that an inner call ended with does not pass for the tool's own", async () => {
  let writes = 0
  const inner = defineTool({
    namespace: 'test',
    name: 'inner',
    description: 'Inner.',
    inputSchema: anything,
    backends: [{ kind: 'gone' }],
  })
  const outer = tool(
    async () => {
      writes += 1
      await gantry.runOrThrow('test:inner')
    },
    { retry: { attempts: 5, delayMs: 1 } },
  )
  const gantry = createExecutor({ tools: [inner, outer] })
  const result = await gantry.run('test:it')
  assert.equal(writes, 1)
  assert.equal(result.error?.code, 'BACKEND_FAILED')
  assert.equal(result.error?.effect, 'possible')
  assert.equal(result.error?.cause?.code, 'NO_BACKEND')
})

test('a tool cannot give rights to the identity it is shown, nor describe what is hidden', async () => {
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
