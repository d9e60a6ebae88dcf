import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Json, Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'
import { memoryArtifacts } from '../artifacts/memory.ts'
import { memoryAudit } from '../audits/memory.ts'
import type { CodeOptions } from '../executor-interface.ts'
import { defineTool } from '../tools/tool.ts'
import { memoryTracer } from '../tracing/memory-tracer.fixture.ts'

const odd = defineTool({
  namespace: 'my-ns',
  name: 'my.tool',
  description: 'Has a name that is no identifier.',
  effect: 'read',
  inputSchema: { type: 'object' },
  run: (args) => ({ got: args }),
})
const audit = memoryAudit()
const gantry = createExecutor({ tools: [...demoTools(), odd], audit, artifacts: memoryArtifacts() })
after(() => gantry.close())

const run = (code: string, options: CodeOptions = {}): Promise<Result> => gantry.code(code, options)
const value = async (code: string, options?: CodeOptions): Promise<Json> => {
  const { status, output, error } = await run(code, options)
  assert.equal(status, 'ok', JSON.stringify(error))
  return output
}

test('the output of a program is its return value, and its result lists every call', async () => {
  const { output, program, tool } = await run(
    'const { result } = await tools.demo.add({ a: 1, b: 2 })\nreturn result * 2',
  )
  assert.deepEqual([output, tool?.id, program?.language], [6, 'code:program', 'typescript'])
  assert.deepEqual(
    program?.calls.map(({ number, tool, status }) => [number, tool, status]),
    [[1, 'demo:add', 'ok']],
  )
  assert.match(program?.calls[0]?.callId ?? '', /\.1$/)
})

test('a program that returns nothing has output null', async () => {
  assert.deepEqual([await value('1 + 1'), await value('return undefined'), await value('return')], [null, null, null])
})

test('a program calls tools by id, by quoted name and by version', async () => {
  assert.deepEqual(await value("return await run('demo:add', { a: 1, b: 2 })"), { result: 3 })
  assert.deepEqual(await value("return await tools['my-ns']['my.tool']({ x: 1 })"), { got: { x: 1 } })
  assert.deepEqual(await value("return await tools.demo['add:1.0.0']({ a: 1, b: 2 })"), { result: 3 })
  assert.deepEqual(await value('return await tools["my-ns"]["my.tool"]()'), { got: {} })
})

test('JSON arguments reach the tool unchanged, and others throw a TypeError in the program', async () => {
  const args = { text: 'a"\\\n\u2028é😀', zero: -0, list: [1, { deep: [null, true] }], none: null, half: '\ud800' }
  const { half: _half, ...sound } = args
  assert.deepEqual(await value(`return (await tools['my-ns']['my.tool'](${JSON.stringify(sound)})).got`), {
    ...sound,
    zero: 0,
  })
  for (const bad of ['{ a: NaN }', '{ a: 1n }', '{ a: () => 1 }', '{ a: new Map() }']) {
    const { error } = await run(`await tools.demo.echo(${bad})`, { language: 'javascript' })
    assert.equal(error?.code, 'CODE_FAILED', bad)
    assert.match(error?.message ?? '', /TypeError/, bad)
  }
})

test('an error of a tool is thrown with its code, and can be caught', async () => {
  const code = `
    try { await tools.demo.add({ a: 1 }) } catch (error) {
      return [error.name, error.code, error.retryable, error.details.issues.length, error instanceof Error]
    }`
  assert.deepEqual(await value(code), ['ToolError', 'INPUT_INVALID', false, 1, true])
  assert.equal(await value("try { await run('no:tool') } catch ({ code }) { return code }"), 'TOOL_NOT_FOUND')
  assert.equal(await value("try { await run('?') } catch ({ code }) { return code }"), 'TOOL_ID_INVALID')
})

test('search, describe, examples and chain return the same as the executor', async () => {
  assert.equal(await value("return (await search('adds numbers', { limit: 1 }))[0].id"), 'demo:add')
  assert.equal(await value("return (await describe('demo:add', { level: 'schema' })).inputSchema.type"), 'object')
  assert.equal(await value("return (await examples('demo:add'))[0].title"), 'Five and three')
  const chain = `return await chain([
    { id: 'one', tool: 'demo:add', args: { a: '{{input.x}}', b: 1 } },
    { tool: 'demo:add', args: { a: '{{steps.one.output.result}}', b: 1 } },
  ], { input: { x: 5 } })`
  const { output, program } = await run(chain)
  assert.deepEqual(
    [output, program?.calls.map(({ number, tool }) => [number, tool])],
    [
      { result: 7 },
      [
        [1, 'demo:add'],
        [1, 'demo:add'],
      ],
    ],
  )
  const failed = "try { await chain([{ tool: 'demo:fail', args: { message: 'x' } }]) } catch ({ code }) { return code }"
  assert.equal(await value(failed), 'BACKEND_FAILED')
  assert.equal(await value("try { await chain('x') } catch ({ code }) { return code }"), 'CHAIN_INVALID')
  assert.equal(await value("try { await describe('no:tool') } catch ({ code }) { return code }"), 'TOOL_NOT_FOUND')
})

test('a lone surrogate in a request is an error that the program can catch, and no tool is called', async () => {
  const { output, program } = await run(`
    const half = '\\ud800'
    const asks = [
      () => tools.demo.echo({ value: half }), () => tools['my-ns']['my.tool']({ deep: [{ [half]: 1 }] }),
      () => run('demo:echo', { value: half }), () => chain([{ tool: 'demo:echo', args: { value: half } }]),
      () => search(half), () => artifacts.put('a.txt', half), () => artifacts.put(half, 'a'),
    ]
    const paths = []
    for (const ask of asks) await ask().catch(({ code, details }) => paths.push(code + ' ' + details.issues[0].path))
    return paths`)
  const paths = [
    '/args/value',
    '/args/deep/0',
    '/args/value',
    '/steps/0/args/value',
    '/words',
    '/put/content',
    '/put/name',
  ]
  assert.deepEqual(
    output,
    paths.map((path) => `INPUT_INVALID ${path}`),
  )
  assert.deepEqual(program?.calls, [])
  assert.deepEqual(await value("return await tools.demo.echo({ value: '\\ud83d' + '\\ude00' })"), { value: '😀' })
})

test('a stored file gets the same MIME type as from files:put, by name and content', async () => {
  const png = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
  const files: readonly (readonly [string, string, string])[] = [
    ['a.csv', "'a,b'", 'text/csv'],
    ['a.json', '{ a: 1 }', 'application/json'],
    ['p.png', `new Uint8Array(${JSON.stringify(png)})`, 'image/png'],
    ['p.png', "'no picture'", 'text/plain'],
    ['noname', `new Uint8Array(${JSON.stringify(png)})`, 'image/png'],
    ['noname', 'new Uint8Array([255])', 'application/octet-stream'],
    ['noname', "'text'", 'text/plain'],
  ]
  const puts = files.map(([name, content]) => `(await artifacts.put('${name}', ${content})).mimeType`)
  const types = files.map(([, , type]) => type)
  assert.deepEqual(await value(`return [${puts}]`), types)
  const keeping = createExecutor()
  const kept = await keeping.code(`return [${puts}]`)
  await keeping.close()
  assert.deepEqual(kept.output, types)
})

test('a program stores and reads files as text and bytes, and they are in its result', async () => {
  const { output, artifacts } = await run(`
    const text = await artifacts.put('a.txt', 'héllo')
    const bytes = await artifacts.put('b.bin', new Uint8Array([1, 2, 255]), { mimeType: 'image/png' })
    return [(await artifacts.get(text.id)).content, (await artifacts.get(bytes.id)).base64]`)
  assert.deepEqual(output, ['héllo', 'AQL/'])
  assert.deepEqual(
    artifacts.map(({ name, mimeType }) => [name, mimeType]),
    [
      ['a.txt', 'text/plain'],
      ['b.bin', 'image/png'],
    ],
  )
  assert.equal(await value("try { await artifacts.get('art_none') } catch ({ code }) { return code }"), 'NOT_FOUND')
})

test('printed output is streamed as chunks and is in the result', async () => {
  const chunks: unknown[] = []
  let result: Result | undefined
  for await (const event of gantry.stream('code:program', {
    code: "print('one', { two: 2 })\nconsole.error('three')\nreturn 4",
  })) {
    if (event.kind === 'chunk') chunks.push(event.data)
    if (event.kind === 'done') result = event.result
  }
  assert.deepEqual(chunks, [{ stream: 'stdout', text: 'one { two: 2 }\nthree\n' }])
  assert.deepEqual([result?.output, result?.program?.printed], [4, 'one { two: 2 }\nthree\n'])
})

test('sleep and timers work, and a pending sleep does not delay the end of a program', async () => {
  const code = `
    const order = []
    setTimeout(() => order.push('late'), 60)
    const often = setInterval(() => { order.push('often'); clearInterval(often) }, 1)
    await sleep(150)
    return order`
  assert.deepEqual(await value(code), ['often', 'late'])
  assert.equal(await value('void sleep(3_600_000); return 1'), 1)
})

test('a call that is not awaited is still made before the program ends', async () => {
  const { program, output } = await run(
    "void tools.demo.add({ a: 1, b: 2 }); void tools.demo.fail({ message: 'x' }); return 1",
  )
  assert.deepEqual([output, program?.calls.map(({ status }) => status)], [1, ['ok', 'failed']])
})

test('a program makes a hundred calls in parallel and a thousand in total', async () => {
  const many =
    'return (await Promise.all(Array.from({ length: 100 }, (_, i) => tools.demo.add({ a: i, b: 1 })))).map(({ result }) => result)'
  assert.deepEqual(
    await value(many),
    Array.from({ length: 100 }, (_, i) => i + 1),
  )
  const { output, program } = await run(
    'let sum = 0; for (let i = 0; i < 1000; i++) sum = (await tools.demo.add({ a: sum, b: 1 })).result; return sum',
  )
  assert.deepEqual([output, program?.calls.length], [1_000, 1_000])
})

test('no more calls than limits.parallel run at a time', async () => {
  let [running, most] = [0, 0]
  const slow = defineTool({
    namespace: 'test',
    name: 'slow',
    description: 'Counts who is there.',
    inputSchema: { type: 'object' },
    async run() {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
      return null
    },
  })
  const own = createExecutor({ tools: [slow] })
  const code = 'await Promise.all(Array.from({ length: 20 }, () => tools.test.slow()))'
  assert.equal((await own.code(code, { limits: { parallel: 3 } })).status, 'ok')
  assert.equal(most, 3)
  await own.code(code)
  assert.ok(most > 3)
  await own.close()
})

test('a large value reaches the tool and the program unchanged', async () => {
  const text = 'é'.repeat(300_000)
  assert.deepEqual(
    await value("const text = 'é'.repeat(300_000); return (await tools.demo.echo({ value: text })).value"),
    text,
  )
})

test('every inner call has audit entries and a span below the program', async () => {
  const { callId } = await run('return await tools.demo.add({ a: 1, b: 2 })')
  const ids = audit.records().map((record) => record.callId)
  assert.ok(ids.includes(callId) && ids.includes(`${callId}.1`))
  const tracer = memoryTracer()
  const own = createExecutor({ tools: demoTools(), tracer })
  await own.code('return await tools.demo.add({ a: 1, b: 2 })')
  await own.close()
  const ofTool = (id: string) => tracer.spans.find(({ facts }) => String(facts['gantry.tool']).startsWith(id))
  const [outer, inner] = [ofTool('code:program'), ofTool('demo:add')]
  assert.ok(outer !== undefined && inner !== undefined, JSON.stringify(tracer.spans))
  assert.equal(inner.traceId, outer.traceId)
  assert.ok(inner.parent !== undefined && tracer.spans.some(({ id }) => id === inner.parent))
})

test('the sandbox span is a child of the attempt and ends with the code of the program', async () => {
  const tracer = memoryTracer()
  const own = createExecutor({ tools: demoTools(), tracer })
  const sandbox = () => tracer.spans.findLast(({ name }) => name === 'sandbox')
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  try {
    const { output } = await own.code('return process.env.TRACEPARENT ?? null', { traceparent })
    assert.equal(output, null, 'the program sees nothing of the trace')
    assert.deepEqual(tracer.below('call.attempt'), ['sandbox'])
    assert.deepEqual(tracer.below('sandbox'), ['sandbox.start', 'sandbox.run'])
    const facts = { 'gantry.runtime': 'wasm', 'gantry.isolation': 'wasm' }
    assert.deepEqual([sandbox()?.facts, sandbox()?.code], [facts, undefined])
    await own.code('throw new Error("no")')
    assert.equal(sandbox()?.code, 'CODE_FAILED')
    await own.code('while (true);', { limits: { wallMs: 300 } })
    assert.match(sandbox()?.code ?? '', /^(TIMEOUT|LIMIT_EXCEEDED)$/)
    assert.ok(tracer.spans.every(({ ends }) => ends === 1))
  } finally {
    await own.close()
  }
})

test('code:program is callable on every executor, and listed only if it is registered', async () => {
  assert.deepEqual(gantry.tools({ namespace: 'code' }).items, [])
  assert.equal(gantry.find('code:program').tool.backends[0]?.kind, 'program')
  assert.equal((await gantry.run('code:program', { code: 'return 1' })).output, 1)
  assert.equal((await gantry.run('code:program:9.0.0', { code: 'return 1' })).error?.code, 'TOOL_NOT_FOUND')
})

test('invalid program options are refused before the program starts', async () => {
  const wrong: CodeOptions[] = [
    { language: 'cobol' as never },
    { limits: { toolCalls: 0 } },
    { limits: { nonsense: 1 } as never },
    { nonsense: 1 } as never,
  ]
  for (const options of wrong) {
    assert.equal((await run('return 1', options)).error?.code, 'INPUT_INVALID', JSON.stringify(options))
  }
})
