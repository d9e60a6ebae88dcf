import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type JsonSchema, ToolError } from '@gantry/contract'
import { createExecutor, defineTool, type Executor } from '@gantry/core'
import { compileSchema } from '@gantry/json-schema'

/** The attacks of the threat model that concern the library; each asserts the effect and shows that it works unguarded. */

const anything = { type: 'object' } as const

function executorOf(run: (args: unknown) => unknown, inputSchema: JsonSchema = anything): Executor {
  return createExecutor({
    tools: [defineTool({ namespace: 'test', name: 'it', description: 'It.', inputSchema, run })],
  })
}

function polluted(): boolean {
  return 'polluted' in {}
}

function codeOf(work: () => unknown): string {
  try {
    work()
    return 'accepted'
  } catch (error) {
    return ToolError.is(error) ? error.code : `not a ToolError: ${String(error)}`
  }
}

const hostileText = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'

test('83: __proto__ and constructor.prototype in arguments reach neither a prototype nor the tool', async () => {
  const control = Object.assign({}, JSON.parse(hostileText))
  assert.equal(control.polluted, true, 'control: a careless merge is polluted')
  let seen: unknown
  const gantry = executorOf((args) => {
    seen = args
    return Object.assign({}, args as object)
  })
  const refused = await gantry.run('test:it', JSON.parse(hostileText))
  assert.equal(refused.error?.code, 'INPUT_INVALID')
  assert.deepEqual(refused.error?.details?.issues, [{ path: '/__proto__', message: 'is a key that is not allowed' }])
  assert.equal(seen, undefined)
  const nested = await gantry.run('test:it', { deep: [JSON.parse(hostileText)] })
  assert.equal(nested.error?.code, 'INPUT_INVALID')
  const onlyConstructor = await gantry.run('test:it', { constructor: { prototype: { polluted: true } } })
  assert.equal(onlyConstructor.status, 'ok')
  assert.equal(polluted(), false)
})

test('83: __proto__ in results is left out with a warning, and in options and definitions changes nothing', async () => {
  const result = await executorOf(() => JSON.parse(hostileText)).run('test:it')
  assert.equal(result.status, 'ok')
  assert.equal(result.warnings[0]?.code, 'OUTPUT_INVALID')
  assert.deepEqual(Object.keys(result.output as object), ['constructor'])
  assert.equal((result.output as { polluted?: boolean }).polluted, undefined)
  assert.equal(
    codeOf(() => createExecutor(JSON.parse('{"__proto__":{"polluted":true}}'))),
    'CONFIG_INVALID',
  )
  assert.equal(
    codeOf(() => createExecutor({ limits: JSON.parse('{"__proto__":{"timeoutMs":1}}') })),
    'CONFIG_INVALID',
  )
  assert.equal(polluted(), false)
})

test('84: getters, proxies, thenables and toJSON in a result cross only as the data they gave once', async () => {
  let reads = 0
  const shifty = {
    get price() {
      return ++reads
    },
  }
  const first = await executorOf(() => shifty).run('test:it')
  assert.deepEqual([first.output, first.output], [{ price: 1 }, { price: 1 }])
  const trap = new Proxy(
    { a: 1 },
    { get: (_target, key) => (key === 'then' ? undefined : 'trapped'), ownKeys: () => ['a'] },
  )
  assert.deepEqual((await executorOf(() => trap).run('test:it')).output, { a: 'trapped' })
  const thenable = { inner: { then: (resolve: (value: string) => void) => resolve('ran') } }
  const nested = await executorOf(() => thenable).run('test:it')
  assert.equal(nested.error?.code, 'OUTPUT_INVALID')
  assert.match(nested.error?.message ?? '', /\/inner\/then/)
  const speaking = { toJSON: () => ({ toJSON: () => 'again', n: 1 }) }
  const plain = await executorOf(() => Object.create(speaking)).run('test:it')
  assert.equal(plain.error?.code, 'OUTPUT_INVALID')
  assert.match(plain.error?.message ?? '', /\/toJSON/)
})

test('84: a proxy or getter that throws, loops or lies about its keys ends as a clear failure', async () => {
  const hostiles: (() => object)[] = [
    () =>
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error('no keys')
          },
        },
      ),
    () =>
      new Proxy(
        {},
        {
          getPrototypeOf: () => {
            throw new Error('no prototype')
          },
        },
      ),
    () => new Proxy([], { get: (target, key) => (key === 'length' ? 4e9 : Reflect.get(target, key)) }),
    () => ({
      get x(): unknown {
        return this
      },
    }),
  ]
  for (const make of hostiles) {
    for (const result of [
      await executorOf(() => make()).run('test:it'),
      await executorOf(() => 1).run('test:it', make()),
    ]) {
      assert.equal(result.status, 'failed')
      assert.ok(
        ['INPUT_INVALID', 'OUTPUT_INVALID', 'RESULT_TOO_LARGE', 'BACKEND_FAILED'].includes(result.error?.code ?? ''),
        result.error?.code,
      )
    }
  }
})

test('85: host errors, promises and functions do not cross as objects', async () => {
  for (const value of [new Error('inside'), Promise.resolve(1), () => 1, new Map(), Symbol('s'), new WeakRef({})]) {
    const result = await executorOf(() => ({ value })).run('test:it')
    assert.equal(result.error?.code, 'OUTPUT_INVALID')
    assert.deepEqual(JSON.parse(JSON.stringify(result)), result)
  }
  const thrown = await executorOf(() => {
    throw Object.assign(new Error('outer'), { secret: { live: () => 1 }, cause: new Error('inner') })
  }).run('test:it')
  assert.deepEqual(thrown.error?.cause, { name: 'Error', message: 'outer', cause: { name: 'Error', message: 'inner' } })
})

test('100: catastrophic patterns in pattern and patternProperties end, with the right answer', async () => {
  const patterns: [pattern: string, matches: boolean][] = [
    ['^(a|a)*$', false],
    ['^(a+)+$', false],
    ['(x+x+)+y', false],
    ['^(.*)*$', true],
    ['^(([a-z])+.)+[A-Z]([a-z])+$', false],
    ['(?:a?){40}a{40}', true],
    ['\\s+$', false],
    ['^(?:a|aa)+$', false],
  ]
  const text = `${'a'.repeat(50_000)}!`
  for (const [pattern, matches] of patterns) {
    assert.equal(compileSchema({ pattern }).check(text), matches, pattern)
    const byName = compileSchema({ patternProperties: { [pattern]: { type: 'string' } } })
    assert.equal(byName.check({ [text]: 1 }), !matches, pattern)
  }
  const gantry = executorOf(() => 1, { type: 'object', properties: { x: { type: 'string', pattern: '^(a|a)*$' } } })
  assert.equal((await gantry.run('test:it', { x: text })).error?.code, 'INPUT_INVALID')
  assert.equal((await gantry.run('test:it', { x: 'a'.repeat(1_000) })).status, 'ok')
})

test('101: a $ref to the network, to a file or to itself is refused when the tool is defined', () => {
  const schemas: JsonSchema[] = [
    { $ref: 'http://127.0.0.1:1/schema.json' },
    { $ref: 'https://json-schema.org.evil.example/schema' },
    { $ref: 'file:///etc/passwd' },
    { $ref: '../other.json' },
    { $ref: '#/$defs/missing' },
    { $ref: '#' },
    { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
    { allOf: [{ $ref: '#' }] },
    { $dynamicRef: 'http://127.0.0.1:1/#x' },
  ]
  for (const schema of schemas) {
    const inputSchema = { type: 'object', ...(schema as object) }
    assert.match(
      codeOf(() => executorOf(() => 1, inputSchema)),
      /^(SCHEMA|TOOL)_INVALID$/,
      JSON.stringify(schema),
    )
  }
  const tree = { type: 'object', properties: { child: { $ref: '#' } } }
  assert.equal(
    codeOf(() => executorOf(() => 1, tree)),
    'accepted',
    'control: recursion through data is fine',
  )
})

test('102: enormous schemas are refused or bounded, never a hang or a stack overflow', () => {
  const wide = { type: 'object', allOf: Array.from({ length: 100_000 }, () => ({ type: 'object' })) }
  const oneOf = { type: 'object', oneOf: Array.from({ length: 100_000 }, (_, n) => ({ const: n })) }
  let deep: JsonSchema = { type: 'object' }
  for (let level = 0; level < 10_000; level++) deep = { type: 'object', properties: { deep } }
  const huge = {
    type: 'object',
    properties: { x: { enum: Array.from({ length: 500_000 }, (_, n) => `${n}`.padEnd(100)) } },
  }
  for (const schema of [wide, oneOf, deep, huge]) {
    assert.match(
      codeOf(() => executorOf(() => 1, schema)),
      /^(SCHEMA|TOOL)_INVALID$/,
    )
  }
})

test('102: a small schema that unfolds exponentially is bounded when it checks', async () => {
  const $defs: Record<string, JsonSchema> = { a0: { type: 'object' } }
  for (let n = 1; n <= 40; n++)
    $defs[`a${n}`] = { allOf: [{ $ref: `#/$defs/a${n - 1}` }, { $ref: `#/$defs/a${n - 1}` }] }
  const gantry = executorOf(() => 1, { type: 'object', $ref: '#/$defs/a40', $defs })
  const result = await gantry.run('test:it', {})
  assert.equal(result.error?.code, 'INPUT_INVALID')
  assert.match(result.error?.message ?? '', /complex|steps/)
})

test('103: property names in a schema are data: no code runs and no prototype changes', async () => {
  const evil = '"];globalThis.pwned=1;["'
  const names = [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    evil,
    "'+process.exit(1)+'",
    '$' + '{1}',
    '\u2028',
    '*/ x /*',
  ]
  for (const name of names) {
    const schema: JsonSchema = JSON.parse(
      JSON.stringify({ type: 'object', required: ['NAME'], properties: { NAME: { type: 'number' } } }).replaceAll(
        '"NAME"',
        JSON.stringify(name),
      ),
    )
    const validator = compileSchema(schema)
    assert.equal(validator.check({}), false, name)
    assert.equal(validator.check(JSON.parse(`{${JSON.stringify(name)}:1}`)), true, name)
    assert.equal(validator.check(JSON.parse(`{${JSON.stringify(name)}:"x"}`)), false, name)
  }
  assert.equal('pwned' in globalThis, false)
  assert.equal(polluted(), false)
})

test('104: ids with traversal, control characters, homoglyphs, wrong case or great length find nothing and break nothing', async () => {
  const gantry = executorOf(() => 1)
  const ids = [
    '../test:it',
    'test:../it',
    'test:it\0',
    'test:it\n',
    'test:\u0456t',
    'test:it:1.0.0:x',
    'test::it',
    ':it',
    'test:',
    'te st:it',
  ]
  ids.push('test:'.padEnd(10_240, 'x'), 'test:it:__proto__', '__proto__:it', 'test:constructor', '%74est:it', 'test/it')
  for (const id of ids) {
    const result = await gantry.run(id)
    assert.ok(['TOOL_ID_INVALID', 'TOOL_NOT_FOUND'].includes(result.error?.code ?? ''), JSON.stringify(id.slice(0, 40)))
    assert.ok((result.error?.message.length ?? 0) < 1_000)
    assert.ok(!/[\0\n]/.test(result.error?.message ?? ''))
  }
  assert.equal((await gantry.run('Test:It')).status, 'failed')
  assert.equal((await gantry.run('test:it')).status, 'ok', 'control')
})

test('105: another source cannot shadow a tool, by case, by alias or by a newer version', async () => {
  const gantry = executorOf(() => 'ours')
  const base = gantry.catalog.find('test:it').tool
  const server = { source: 'some-server' }
  const shadows = [
    { ...base, name: 'IT' },
    { ...base, name: 'other', aliases: ['test:it'] },
    { ...base, version: '9.0.0' },
    { ...base, description: 'Better.' },
  ]
  for (const shadow of shadows)
    assert.equal(
      codeOf(() => gantry.catalog.register(shadow, server)),
      'TOOL_INVALID',
    )
  for (const shadow of shadows)
    assert.equal(
      codeOf(() => gantry.catalog.update(shadow, server)),
      'TOOL_INVALID',
    )
  assert.equal((await gantry.run('test:it')).output, 'ours')
})

test('106: arguments stay values: option-like, shell-like and header-like text reaches a tool unchanged', async () => {
  const values = [
    '--output=/etc/passwd',
    '-o',
    '; rm -rf /',
    '$(id)',
    '`id`',
    'a\r\nX-Injected: 1',
    '{{steps.x.output}}',
    "' OR 1=1 --",
  ]
  const gantry = executorOf((args) => args)
  for (const value of values) {
    assert.deepEqual((await gantry.run('test:it', { value })).output, { value })
    const chain = await gantry.chain(
      [
        { id: 'first', tool: 'test:it', args: { value: '{{input}}' } },
        { tool: 'test:it', args: { value: '{{steps.first.output.value}}' } },
      ],
      { input: value },
    )
    assert.deepEqual(chain.output, { value })
  }
})
