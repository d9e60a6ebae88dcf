import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { memoryAudit } from '../audits/memory.ts'
import { createExecutor } from '../executor.ts'
import { defineTool } from '../tools/tool.ts'
import { anything, runIt, tool } from './pipeline.fixture.ts'

test('the error of a failed result has the message and the cause of the thrown error', async () => {
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

test('only a thrown error without a code is an exception; an error by structure or code is a failure', async () => {
  const audit = memoryAudit()
  const raise = (error: unknown) => () => {
    throw error
  }
  const cases: readonly [() => unknown, string][] = [
    [() => 1, 'ok'],
    [() => ({ success: false, error: 'no luck' }), 'failed'],
    [() => ({ content: [{ type: 'text', text: 'no' }], isError: true }), 'failed'],
    [() => ({ exitCode: 3 }), 'failed'],
    [raise(new ToolError('BACKEND_FAILED', 'said so')), 'failed'],
    [raise(new TypeError('x is not a function')), 'exception'],
    [() => Promise.reject(new Error('later')), 'exception'],
    [raise('a text'), 'exception'],
    [() => ({ success: false, denied: true }), 'denied'],
  ]
  for (const [run, outcome] of cases) {
    const result = await runIt(tool(run), {}, { audit })
    const end = audit.records().at(-1)
    assert.equal(end?.phase === 'end' && end.outcome, outcome, JSON.stringify(result.error))
    assert.equal(result.error?.exception, outcome === 'exception' ? true : undefined)
  }
})

test('any thrown value gives a failed result, hostile objects included', async () => {
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

test('a tool may throw an error with a code of its own', async () => {
  const result = await runIt(
    tool(() => {
      throw new ToolError('DENIED', 'not yours')
    }),
  )
  assert.equal(result.status, 'denied')
  assert.equal(result.error?.message, 'not yours')
})

test('an error with an unknown code, of another version of Gantry, becomes BACKEND_FAILED', async () => {
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

test('a call ends with one Result and one audit entry for its end, whatever the tool throws', async () => {
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

test("an error that an inner call throws is the cause of the tool's error, not its code", async () => {
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

test('a message that ends with the first characters of a secret is not truncated', async () => {
  const observed: unknown[] = []
  const broken = tool(
    (_args, { log, progress }) => {
      log('warn', 'item 16')
      progress(1, 2, 'step 16')
      throw new Error('order 16')
    },
    { secrets: ['key'] },
  )
  const gantry = createExecutor({ tools: [broken], secrets: { key: '16-secret-key' } })
  gantry.on('call:reported', ({ report }) => observed.push('message' in report ? report.message : undefined))
  const { error } = await gantry.run('test:it')
  assert.equal(error?.message, 'order 16')
  assert.deepEqual(observed, ['item 16', 'step 16'])
})

test('what a tool threw is emitted with its place and without secrets, and is on the audit record with its place', async () => {
  const audit = memoryAudit()
  const broken = defineTool({
    namespace: 'my',
    name: 'broken',
    description: 'Throws.',
    inputSchema: { type: 'object' },
    secrets: ['TOKEN'],
    run(_args, { secrets }) {
      const cause = new RangeError(`only ${secrets.TOKEN} is there`)
      throw new TypeError(`no ${secrets.TOKEN} here`, { cause })
    },
  })
  const gantry = createExecutor({ tools: [broken], audit, secrets: { get: async () => 'hunter2-secret' } })
  const events: { readonly stack?: string; readonly at?: string; readonly message: string }[] = []
  const given: string[] = []
  gantry.on('call:threw', (event) => events.push(event))
  const result = await gantry.run('my:broken', {}, { onThrow: ({ name }) => given.push(name) })
  await gantry.close()
  const [event] = events
  assert.deepEqual([events.length, given], [1, ['TypeError']])
  assert.match(event?.at ?? '', /failure\.test\.ts:\d+:\d+$/)
  assert.ok(event?.stack?.startsWith('TypeError: no [redacted'))
  assert.match(event?.stack ?? '', /\nCaused by: RangeError: only \[redacted[^\n]*\n +at .*failure\.test\.ts:\d+/)
  assert.ok(!JSON.stringify([event, result, audit.records()]).includes('hunter2'))
  assert.ok(!JSON.stringify(result).includes('failure.test.ts'), 'the caller does not learn files of the host')
  const end = audit.records().find(({ phase }) => phase === 'end')
  assert.deepEqual(end?.phase === 'end' && end.thrownAt, event?.at)
})

test('a message with lines like frames does not decide where the tool threw', async () => {
  const broken = defineTool({
    namespace: 'my',
    name: 'broken',
    description: 'Throws.',
    inputSchema: { type: 'object' },
    run() {
      throw new TypeError('no\n    at pay (file:///etc/other.mjs:1:1)')
    },
  })
  const gantry = createExecutor({ tools: [broken] })
  const places: (string | undefined)[] = []
  gantry.on('call:threw', ({ at }) => places.push(at))
  await gantry.run('my:broken', {})
  await gantry.close()
  assert.match(places.join(), /^file:.*failure\.test\.ts:\d+:\d+$/)
})

test('a failure that a tool reports is not emitted as thrown', async () => {
  const gantry = createExecutor({
    tools: [
      defineTool({
        namespace: 'my',
        name: 'says',
        description: 'Reports a failure.',
        inputSchema: { type: 'object' },
        run: () => ({ success: false, error: 'no luck' }),
      }),
    ],
  })
  let count = 0
  gantry.on('call:threw', () => {
    count += 1
  })
  assert.equal((await gantry.run('my:says', {})).status, 'failed')
  await gantry.close()
  assert.equal(count, 0)
})
