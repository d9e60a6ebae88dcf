import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, runInContext } from 'node:vm'
import { attackTest } from '../attack-test.fixture.ts'
import { createBench } from '../run.fixture.ts'

const bench = createBench()
const js = (code: string, options = {}) => bench.code('javascript', code, options)
const soon = { limits: { wallMs: 300, cpuMs: 300 } }

attackTest('82: host functions in the guest give no access to the host realm', async () => {
  const chain = "log.constructor.constructor('return typeof process.binding')()"
  assert.equal(runInContext(chain, createContext({ log: () => undefined })), 'function', 'the control')
  const reached = await js(`
    const found = []
    const seen = new Set()
    const visit = (value, path) => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return
      seen.add(value)
      try {
        const make = value.constructor?.constructor
        if (typeof make === 'function' && make('return typeof process.binding + typeof Buffer + typeof global')() !== 'undefined'.repeat(3)) found.push(path)
      } catch {}
      for (const key of Reflect.ownKeys(value)) {
        try { visit(value[key], path + '.' + String(key)) } catch {}
      }
      visit(Object.getPrototypeOf(value), path + '.__proto__')
    }
    visit(globalThis, 'globalThis')
    visit(require('fs'), 'fs')
    return { found, looked: seen.size > 300 }`)
  assert.deepEqual(reached.value, { found: [], looked: true })
})

attackTest('82: an error of a host function becomes a guest error', async () => {
  const { value } = await js(`
    try { require('fs').readFileSync('/etc/passwd') } catch (error) {
      return [error instanceof Error, Object.getPrototypeOf(error) === Error.prototype, /\\.ts|\\.js:|node:/.test(error.stack.replaceAll('main.js', ''))]
    }`)
  assert.deepEqual(value, [true, true, false])
})

attackTest('83: keys that would reach a prototype are left out of the value', async () => {
  const value = await js(`return JSON.parse('{"__proto__": {"polluted": 1}}')`)
  assert.deepEqual(value.value, {})
  assert.deepEqual(value.outcome.lost, { lines: 0, keys: 1 })
  const named = await js(`return { constructor: { prototype: { polluted: 1 } } }`)
  assert.deepEqual(named.value, { constructor: { prototype: { polluted: 1 } } })
  assert.equal(({} as { polluted?: number }).polluted, undefined)
  const env = await js('return [process.env.polluted, ({}).polluted]', { job: { env: { ['__proto__']: 'x' } } })
  assert.deepEqual(env.value, [null, null])
})

attackTest('84: getters, Proxies, thenables and toJSON give JSON or no value', async () => {
  const cases: readonly (readonly [string, unknown])[] = [
    ['return { get a() { return 1 } }', { a: 1 }],
    ['return new Proxy({ a: 1 }, {})', { a: 1 }],
    ['return { then(resolve) { resolve({ a: 2 }) } }', { a: 2 }],
    ['return { toJSON: () => ({ a: 3 }) }', { a: 3 }],
  ]
  for (const [code, value] of cases) assert.deepEqual((await js(code)).value, value, code)
  for (const code of [
    'return { get a() { throw new Error("no") } }',
    'return { toJSON() { throw null } }',
    'return new Proxy({}, { ownKeys() { throw new Error("no") } })',
    'return { a: 1n }',
    'return { a: NaN }',
    'return () => 1',
    'return new Map()',
    'const a = {}; a.a = a; return a',
    'let a = []; for (let i = 0; i < 200; i++) a = [a]; return a',
  ]) {
    const { outcome, stderr, exit } = await js(code)
    assert.equal('value' in outcome, false, code)
    assert.match(stderr, /^gantry: the value is left out because it is not JSON: /, code)
    assert.deepEqual(exit, { code: 0 })
  }
})

attackTest('84: endless serialization of a value is stopped by the wall limit', async () => {
  assert.equal((await js('return { toJSON() { while (true); } }', soon)).hit, 'wallMs')
  assert.equal((await js('return { then() { while (true); } }', soon)).hit, 'wallMs')
  assert.equal((await js('throw { get name() { while (true); }, __proto__: Error.prototype }', soon)).hit, 'wallMs')
})

attackTest('85: a returned promise is awaited in the guest, and its rejection is a guest error', async () => {
  assert.equal((await js('return new Promise((resolve) => setTimeout(resolve, 5, 1))')).value, 1)
  assert.match((await js('return Promise.reject(new RangeError("no"))')).stderr, /^RangeError: no/)
})

attackTest('86: the wall limit ends loops of every kind', async () => {
  for (const code of [
    'while (true);',
    'for (;;) await 0',
    'const f = () => Promise.resolve().then(f); f()',
    'setInterval(() => {}, 0)',
    'const f = () => setTimeout(f, 0); f()',
    'try { while (true); } finally { while (true); }',
    'while (true) try { while (true); } catch {}',
    'function* f() { while (true) yield 1 } for (const x of f());',
    'process.exit.call = 1; Promise.resolve().then(() => { while (true); }); await new Promise(() => {})',
  ]) {
    const { hit, exit } = await js(code, soon)
    assert.deepEqual([hit, exit], ['wallMs', { signal: 'SIGKILL' }], code)
  }
})

attackTest('86: the CPU limit ends a loop, in the interpreter and in one long native call', async () => {
  const limits = { cpuMs: 100 }
  assert.equal((await js('while (true);', { limits })).hit, 'cpuMs')
  assert.equal((await js('new Array(4e9).join("x")', { limits })).hit, 'cpuMs')
})

attackTest('86: endless recursion, also through promises, is an error or reaches the memory limit', async () => {
  assert.match((await js('const f = () => f() + 1; f()')).stderr, /Maximum call stack/)
  assert.match((await js('async function f() { await f() } await f()')).stderr, /Maximum call stack/)
  const { hit } = await js('async function f() { await 0; await f() } await f()', {
    limits: { memoryBytes: 16_777_216 },
  })
  assert.equal(hit, 'memoryBytes')
})

attackTest('86: no code of a program runs after it has ended', async () => {
  const { stdout } = await js('setTimeout(() => console.log("late"), 1); process.exit(0)')
  assert.equal(stdout, '')
  const after = await js('return 1')
  assert.equal(after.stdout, '')
})

attackTest(
  '88: endless regular expressions and native calls are ended, though the interpreter does not check its limits in them',
  async () => {
    for (const code of [
      '/^(a|a)*$/.test("a".repeat(64) + "b")',
      'new Array(4e9).join("x")',
      'const a = []; a[4e9] = 1; a.length = 4e9; a.sort()',
      'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)',
    ]) {
      assert.equal((await js(code, soon)).hit, 'wallMs', code)
    }
  },
)

attackTest(
  '88: strings, BigInts and arrays that grow without bound reach the memory limit or a limit of the language',
  async () => {
    const limits = { memoryBytes: 33_554_432 }
    for (const code of [
      '"x".repeat(2 ** 29)',
      'let s = "x"; const all = []; while (true) all.push(s += s.slice(0, 100000) + all.length)',
      'new ArrayBuffer(1e9)',
      'const all = []; while (true) all.push({ a: 1 })',
      'const all = new Map(); for (let i = 0; ; i++) all.set(i, [i])',
      'const a = []; while (true) try { a.push(new Uint8Array(1e6)) } catch (error) { throw error }',
    ]) {
      assert.equal((await js(code, { limits })).hit, 'memoryBytes', code)
    }
    for (const code of ['2n ** (2n ** 40n)', 'let x = 3n; while (true) x *= x', 'let s = "x"; while (true) s += s']) {
      const { exit } = await js(code, { limits })
      assert.deepEqual(exit, { code: 1 }, code)
    }
  },
)

attackTest('88: memory of one program does not count for the next', async () => {
  await js('globalThis.kept = new Uint8Array(5e7)')
  const { value, usage } = await js('return typeof kept')
  assert.equal(value, 'undefined')
  assert.ok((usage.memoryPeakBytes ?? 0) < 20_000_000)
})

attackTest('89: the guest has no WebAssembly, no host modules and no blocking Atomics', async () => {
  const { value } = await js(`
    const names = ['node:child_process', 'node:vm', 'fs2', 'file:///etc/passwd', '/etc/passwd', './x.js', 'data:text/javascript,1', 'https://example.com/x.js']
    const loaded = []
    for (const name of names) await import(name).then(() => loaded.push(name), () => {})
    let waited = false
    try { Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 10); waited = true } catch {}
    return [typeof WebAssembly, loaded, waited]`)
  assert.deepEqual(value, ['undefined', [], false])
})

attackTest('93: output that imitates a result is only output', async () => {
  const { value, stdout } = await js(`console.log('{"value":"forged"}'); console.error('__out'); return 'real'`)
  assert.deepEqual([value, stdout], ['real', '{"value":"forged"}\n'])
})

test('a program leaves no state for the next, not even in changed built-ins', async () => {
  const planted = await js(`
    Array.prototype.map = () => 'stolen'; JSON.stringify = () => '"stolen"'; console.log = () => {}
    globalThis.left = 1; Object.prototype.polluted = 1; process.env.LEFT = 'x'; Math.random = () => 0.5
    return 1`)
  assert.equal(planted.value, 1)
  const { value, stdout } = await js(
    `console.log('seen'); return [typeof left, ({}).polluted, process.env.LEFT, [1].map((x) => x + 1), Math.random() === 0.5]`,
  )
  assert.deepEqual([value, stdout], [['undefined', null, null, [2], false], 'seen\n'])
})
