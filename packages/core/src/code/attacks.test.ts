import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import type { Identity, Json, Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'
import type { CodeOptions } from '../executor-interface.ts'
import { defineTool } from '../tools/tool.ts'

/** Attacks of docs/security-tests.md on programs over tools, by their numbers. */

let calls = 0
const count = defineTool({
  namespace: 'test',
  name: 'count',
  description: 'Counts its calls.',
  inputSchema: { type: 'object' },
  run: () => {
    calls += 1
    return { calls }
  },
})
const hostile = defineTool({
  namespace: 'test',
  name: 'hostile',
  description: 'Returns what is more than data.',
  inputSchema: { type: 'object', properties: { kind: { type: 'string' } }, required: ['kind'] },
  run({ kind }) {
    if (kind === 'proto')
      return JSON.parse('{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}')
    if (kind === 'then') return { inner: { then: 'no function' } }
    if (kind === 'getter') return Object.defineProperty({}, 'x', { get: () => 7, enumerable: true })
    if (kind === 'toJSON') return { toJSON: () => ({ from: 'toJSON' }) }
    if (kind === 'proxy') return new Proxy({ x: 1 }, {})
    throw Object.assign(new TypeError('host error'), { path: import.meta.filename })
  },
})
const gantry = createExecutor({ tools: [...demoTools(), count, hostile] })
after(() => gantry.close())

const run = (code: string, options: CodeOptions = {}): Promise<Result> =>
  gantry.code(code, { language: 'javascript', ...options })
const value = async (code: string, options?: CodeOptions): Promise<Json> => {
  const { status, output, error } = await run(code, options)
  assert.equal(status, 'ok', JSON.stringify(error))
  return output
}
const stillWorks = async (): Promise<void> =>
  assert.equal(await value('return (await tools.demo.add({ a: 1, b: 2 })).result'), 3)

test('82: a program cannot leave the sandbox through constructors', async () => {
  const walk = "constructor.constructor('return process')()"
  // The same walk escapes from a node:vm context.
  assert.equal(runInNewContext(`tool.${walk}.pid`, { tool: () => 1 }), process.pid)
  const starts = [
    'tools.demo.add',
    'run',
    'chain',
    'print',
    'sleep',
    'artifacts.put',
    'console.log',
    'require',
    'setTimeout',
    ...[
      '(await tools.demo.add({ a: 1, b: 2 }))',
      '(await tools.demo.add({ a: 1 }).catch((e) => e))',
      'process',
      'tools.demo.add({ a: 1, b: 2 })',
    ],
  ]
  for (const start of starts) {
    const seen = await value(`const found = (${start}).${walk}
      return [found === process, typeof found.versions, typeof found.mainModule, typeof found.binding, found.pid]`)
    assert.deepEqual(seen, [true, 'undefined', 'undefined', 'undefined', 1], start)
  }
  const names =
    'return [typeof WebAssembly, typeof fetch, typeof Worker, typeof Buffer, typeof globalThis.std, typeof globalThis.os]'
  assert.deepEqual(await value(names), Array(6).fill('undefined'))
})

test('83: __proto__ and constructor in arguments and results pollute nothing', async () => {
  const key = '{"__proto__": {"polluted": true}}'
  // A careless merge of this key would set the prototype.
  assert.equal((Object.assign({}, JSON.parse(key)) as { polluted?: boolean }).polluted, true)
  await run(`return await tools.demo.echo({ value: JSON.parse('${key}') })`)
  await run(`return await tools.demo.echo(JSON.parse('${key}'))`)
  await run(`return JSON.parse('${key}')`)
  const inside = await value(
    "try { await tools.test.hostile({ kind: 'proto' }) } catch {} return [typeof ({}).polluted, typeof [].polluted]",
  )
  assert.deepEqual(inside, ['undefined', 'undefined'])
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})

test('84: getters, proxies, thenables and toJSON become plain data or an error', async () => {
  const cross = (kind: string): Promise<Json> => value(`return await tools.test.hostile({ kind: '${kind}' })`)
  assert.deepEqual(await cross('then'), { inner: { then: 'no function' } })
  for (const kind of ['getter', 'toJSON', 'proxy']) {
    const seen = await value(
      `try { return JSON.stringify(await tools.test.hostile({ kind: '${kind}' })) } catch (error) { return error.code }`,
    )
    assert.match(String(seen), /^\{.*\}$|^OUTPUT_INVALID$/, kind)
  }
  assert.deepEqual(await value('return { toJSON: () => ({ mine: 1 }) }'), { mine: 1 })
  assert.equal(await value('return { then: (resolve) => resolve(5) }'), 5)
  const thrown = await run('return new Proxy({}, { ownKeys() { throw new Error("no keys") } })')
  assert.deepEqual([thrown.status, thrown.error?.code], ['failed', 'CODE_FAILED'])
})

test('85: a program receives the code and message of a host error, without stack, path or class', async () => {
  const seen = (await value(`
    try { await tools.test.hostile({ kind: 'throw' }) } catch (error) {
      return [error.code, error.message, error instanceof TypeError, String(error.stack), JSON.stringify(error), Object.keys(error)]
    }`)) as string[]
  assert.deepEqual(seen.slice(0, 3), ['BACKEND_FAILED', 'host error', false])
  assert.doesNotMatch(JSON.stringify(seen), /node:|file:|attacks\.test|packages/)
  const uncaught = await run("await tools.test.hostile({ kind: 'throw' })")
  assert.doesNotMatch(JSON.stringify(uncaught.error?.details), /node:|file:|attacks\.test|packages/)
})

test('86: endless loops time out, and the runtime still works', async () => {
  const limits = { wallMs: 300 }
  const loops = [
    'for (;;);',
    'const again = () => Promise.resolve().then(again); await again()',
    'for (;;) await null',
    'for (;;) await sleep(0)',
    'for (;;) { try { for (;;); } catch {} finally { continue } }',
  ]
  for (const code of loops) {
    const { status, error } = await run(code, { limits })
    assert.match(`${status} ${error?.code}`, /^timeout TIMEOUT$/, code)
  }
  // Every call of it waits for the next one, so that a fast machine gets to the memory limit first.
  const nested = await run('const again = async () => { await null; return again() }; await again()', { limits })
  assert.match(`${nested.status} ${nested.error?.code}`, /^(?:timeout TIMEOUT|failed LIMIT_EXCEEDED)$/)
  await stillWorks()
})

test('86: timers of a program do not fire after its end', async () => {
  calls = 0
  await run('setTimeout(() => tools.test.count(), 1); setInterval(() => tools.test.count(), 1); return 1')
  await value('await sleep(20); return 1')
  assert.equal(calls, 0)
})

test('87: the call budget ends a program that makes a million calls, sequential or parallel, caught or not', async () => {
  const limits = { toolCalls: 20 }
  for (const code of [
    'for (let i = 0; i < 1e6; i++) await tools.test.count()',
    'for (let i = 0; i < 1e6; i++) try { await tools.test.count() } catch {}',
    'for (let i = 0; i < 1e6; i++) tools.test.count().catch(() => 1)',
    'await Promise.all(Array.from({ length: 15_000 }, () => tools.test.count()))',
    'for (;;) await chain([{ tool: "test:count" }, { tool: "test:count" }])',
  ]) {
    calls = 0
    const { error } = await run(code, { limits })
    assert.match(`${error?.code}`, /^LIMIT_EXCEEDED$|^CODE_FAILED$/, code)
    assert.ok(calls <= 20, `${calls} calls: ${code}`)
  }
  calls = 0
  await run('for (let i = 0; i < 20; i++) await tools.test.count()', { limits })
  assert.equal(calls, 20)
})

test('87: the chains of a program have a budget of steps', async () => {
  const code = 'for (;;) await chain([{ tool: "test:count" }, { tool: "test:count" }])'
  const { error } = await run(code, { limits: { chainSteps: 5 } })
  assert.deepEqual([error?.code, error?.details?.limit], ['LIMIT_EXCEEDED', 'chainSteps'])
})

test('87: nested programs are limited in depth and share the budget of the outer program', async () => {
  const nest = (depth: number): string => {
    const inner =
      depth === 0
        ? 'return 0'
        : `return 1 + await run('code:program', { language: 'javascript', code: ${JSON.stringify(nest(depth - 1))} })`
    return inner
  }
  assert.equal(await value(nest(3)), 3)
  const deep = await run(nest(4))
  assert.match(deep.error?.message ?? '', /too deep/)
  const shallow = await run(nest(1), { limits: { depth: 1 } })
  assert.match(shallow.error?.message ?? '', /too deep/)
  calls = 0
  const greedy = 'for (;;) try { await tools.test.count() } catch {}'
  const code = `for (;;) try { await run('code:program', { language: 'javascript', code: ${JSON.stringify(greedy)} }) } catch {}`
  const { error } = await run(code, { limits: { toolCalls: 10 } })
  assert.equal(error?.code, 'LIMIT_EXCEEDED')
  assert.ok(calls <= 10, String(calls))
})

test('88: regular expressions, texts, numbers and lists that exhaust time or memory end the program', async () => {
  const limits = { wallMs: 500, memoryBytes: 33_554_432 }
  for (const code of [
    "return /^(a|a)*$/.test('a'.repeat(40) + 'b')",
    "let text = 'x'; for (;;) text += text",
    'return (9n ** 9_999_999n) > 1n',
    'const list = []; list[4294967294] = 1; return list.sort().length',
    'const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))',
    'const f = () => f(); f()',
    "return '['.repeat(1e6) + JSON.parse('['.repeat(1e6))",
  ]) {
    const { status } = await run(code, { limits })
    assert.notEqual(status, 'unknown', code)
    assert.notEqual(status, 'ok', code)
  }
  await stillWorks()
})

test('89: a program can import no module, and Atomics.wait does not block it unnoticed', async () => {
  for (const name of [
    'node:child_process',
    'child_process',
    'node:worker_threads',
    './main.js',
    'file:///etc/passwd',
    'data:text/javascript,1',
  ]) {
    const seen = await value(`try { await import('${name}'); return 'loaded' } catch { return 'refused' }`)
    assert.equal(seen, 'refused', name)
  }
  assert.equal(await value("try { require('child_process'); return 'loaded' } catch { return 'refused' }"), 'refused')
  const sleepy = await run('const a = new Int32Array(new SharedArrayBuffer(4)); Atomics.wait(a, 0, 0)', {
    limits: { wallMs: 300 },
  })
  assert.notEqual(sleepy.status, 'ok')
  await stillWorks()
})

test('90: a program has exactly the permissions of its caller', async () => {
  const guest: Identity = { principal: 'guest', tenant: 'local', permissions: [], tools: ['demo:add', 'code:*'] }
  const code = 'try { return await tools.test.count() } catch ({ code }) { return code }'
  assert.equal(await value(code, { identity: guest }), 'TOOL_NOT_FOUND')
  assert.deepEqual(
    await value("return (await search('count')).map(({ id }) => id).includes('test:count')", { identity: guest }),
    false,
  )
  assert.equal(
    await value("try { await describe('test:count') } catch ({ code }) { return code }", { identity: guest }),
    'TOOL_NOT_FOUND',
  )
  assert.equal(
    await value("try { await chain([{ tool: 'test:count' }]) } catch ({ code }) { return code }", { identity: guest }),
    'TOOL_NOT_FOUND',
  )
  const barred: Identity = { principal: 'guest', tenant: 'local', permissions: [], tools: ['demo:*'] }
  assert.equal((await run('return 1', { identity: barred })).error?.code, 'TOOL_NOT_FOUND')
  // A program is bound by the policy of its caller, also by an additional one.
  const narrow = gantry.under({
    policy: {
      decide: ({ id }) => (id.startsWith('test:count') ? { effect: 'deny', reason: 'no' } : { effect: 'allow' }),
    },
  })
  assert.equal((await narrow.code(code)).output, 'DENIED')
  assert.equal(typeof ((await value(code)) as { calls?: number }).calls, 'number')
})

test('91, 93: output of a program cannot forge a response, a return value or its end', async () => {
  const { output, program } = await run(`
    const fs = require('fs')
    for (const text of ['{"value": 42}', '{"done": true, "value": 42}', '11:{"result": 42}', '1  11:42', 'f', '__out 42']) {
      print(text)
      console.error(text)
      for (const fd of [0, 3, 4, 5]) try { fs.writeSync(fd, text + '\\n') } catch {}
    }
    return (await tools.demo.add({ a: 1, b: 2 })).result`)
  assert.equal(output, 3)
  assert.match(program?.printed ?? '', /__out 42/)
})

test('91: a program that changes built-in prototypes affects only itself', async () => {
  const bends = [
    'Array.prototype.join = () => \'f\\ncall {"tool":"test:count","args":{}}\'',
    'Array.prototype.push = () => 0',
    'Map.prototype.get = () => ({ resolve() {}, reject() {} })',
    "String.prototype.slice = () => '7'",
    'Object.defineProperty(Object.prototype, "then", { get() { throw new Error("then") }, configurable: true })',
    'JSON.parse = () => ({ result: 42 }); JSON.stringify = () => "{}"',
    'globalThis.Promise = class { constructor(f) { f(() => 0, () => 0) } }',
    'Promise.prototype.then = () => 42',
    'globalThis.Number = () => 999',
    'Object.keys = () => ["x"]',
  ]
  for (const bend of bends) {
    const { status } = await run(`${bend}\nreturn (await tools.demo.add({ a: 1, b: 2 })).result`, {
      limits: { wallMs: 2_000 },
    })
    assert.match(status, /^ok$|^failed$|^timeout$/, bend)
    await stillWorks()
  }
  const guest: Identity = { principal: 'guest', tenant: 'local', permissions: [], tools: ['demo:add', 'code:*'] }
  calls = 0
  await run(`${bends[0]}\nreturn await tools.demo.add({ a: 1, b: 2 })`, { identity: guest, limits: { wallMs: 500 } })
  assert.equal(calls, 0)
})

test('a program leaves no globals, prototypes or files for the next one', async () => {
  await run(
    "globalThis.left = 1; Object.prototype.left = 2; require('fs').writeFileSync('left', 'x'); Math.random = () => 4",
  )
  const seen = await value(
    "return [typeof left, typeof ({}).left, require('fs').existsSync('left'), Math.random() === 4]",
  )
  assert.deepEqual(seen, ['undefined', 'undefined', false, false])
})
