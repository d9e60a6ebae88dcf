import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTool } from '@gantry/conformance/internal/catalog-pages'
import { type Tool, ToolError } from '@gantry/contract'
import { checkTool } from './tool-check.ts'

function fault(tool: unknown): ToolError {
  try {
    checkTool(tool as Tool)
  } catch (error) {
    if (ToolError.is(error)) return error
    throw error
  }
  return assert.fail('the definition was accepted')
}

function paths(tool: unknown): string[] {
  return (fault(tool).details?.issues ?? []).map(({ path }) => path).sort()
}

test('a complete definition is kept unchanged and deeply frozen', () => {
  const tool = sampleTool({
    title: 'Add',
    outputSchema: { type: 'object', properties: { result: { type: 'number' } } },
    annotations: { readOnlyHint: true },
    icons: [{ src: 'https://example.com/a.png', sizes: ['16x16'] }],
    tags: ['math'],
    docs: '# Add',
    examples: [{ title: 'Two', args: { a: [1, { b: null }] }, output: 2 }],
    deprecated: { message: 'Old.', replacement: 'math:sum' },
    aliases: ['calc:add'],
    backends: [{ kind: 'http', name: 'calc', options: { path: '/add' } }],
    output: 'strict',
    timeoutMs: 5,
    limits: { argsBytes: 10 },
    permissions: ['math:use'],
    secrets: ['KEY'],
    egress: ['https://example.com'],
    profile: 'small',
    runtime: 'process',
    concurrencyKey: 'k',
    concurrency: 1,
    retry: { attempts: 2, delayMs: 0 },
    approval: 'always',
    placement: { zone: 'a' },
    background: false,
    cost: 5,
    cache: { ttlMs: 60_000, scope: 'tenant' },
  })
  const { tool: checked } = checkTool(tool)
  assert.deepEqual(checked, tool)
  const frozen = (value: unknown): boolean =>
    typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(frozen))
  assert.ok(frozen(checked))
})

test('one error names every failing path', () => {
  const wrong = { namespace: 'a b', name: '', version: 'one', inputSchema: false, backends: [], effect: 'maybe' }
  assert.deepEqual(paths(wrong), [
    '/backends',
    '/description',
    '/effect',
    '/inputSchema',
    '/name',
    '/namespace',
    '/version',
  ])
  assert.equal(fault(wrong).code, 'TOOL_INVALID')
})

for (const [title, changes, path] of [
  ['an input schema of another type', { inputSchema: { type: 'string' } }, '/inputSchema'],
  ['an input schema that is true', { inputSchema: true }, '/inputSchema'],
  ['a description of whitespace', { description: ' \n' }, '/description'],
  ['a description that is too long', { description: 'x'.repeat(10_001) }, '/description'],
  ['too many tags', { tags: Array.from({ length: 21 }, (_, index) => `t${index}`) }, '/tags'],
  ['a tag with other characters', { tags: ['ok', 'a/b'] }, '/tags/1'],
  ['an example without arguments', { examples: [{ title: 'x' }] }, '/examples/0/args'],
  ['an example whose arguments are a list', { examples: [{ title: 'x', args: [] }] }, '/examples/0/args'],
  ['a timeout of zero', { timeoutMs: 0 }, '/timeoutMs'],
  ['a timeout that is not a number', { timeoutMs: Number.NaN }, '/timeoutMs'],
  ['an alias with a version', { aliases: ['a:b:1.0.0'] }, '/aliases/0'],
  ['an alias that is not an id', { aliases: ['../x'] }, '/aliases/0'],
  ['a cache for a tool with a side effect', { effect: 'once', cache: { ttlMs: 1_000 } }, '/cache'],
  ['a cache without a ttlMs', { cache: {} }, '/cache/ttlMs'],
  ['a negative cost', { cost: -1 }, '/cost'],
  ['a placement value that is not a string', { placement: { gpu: true } }, '/placement/gpu'],
  ['a replacement that is not an id', { deprecated: { message: 'Old.', replacement: 'x' } }, '/deprecated/replacement'],
  ['an unknown property', { timeoutMS: 5 }, '/timeoutMS'],
  ['an unknown limit', { limits: { bytes: 5 } }, '/limits/bytes'],
  ['a backend without a kind', { backends: [{ name: 'x' }] }, '/backends/0/kind'],
  ['a schema with a __proto__ key', { outputSchema: JSON.parse('{"__proto__":{}}') }, '/outputSchema/__proto__'],
  ['a schema that holds a function', { outputSchema: { default: () => 1 } }, '/outputSchema/default'],
] as const) {
  test(`${title} is refused at its path`, () => {
    const tool = { ...sampleTool(), ...(changes as object) }
    assert.deepEqual(paths(tool), [path])
    assert.equal(fault(tool).code, 'TOOL_INVALID')
  })
}

for (const [changes, path, meant] of [
  [{ timeoutMS: 5 }, '/timeoutMS', 'timeoutMs'],
  [{ descripton: 'Adds.' }, '/descripton', 'description'],
  [{ limits: { argsByte: 5 } }, '/limits/argsByte', 'argsBytes'],
  [{ retry: { attempts: 2, delay: 5 } }, '/retry/delay', undefined],
  [{ retry: { attempts: 2, delayMS: 5 } }, '/retry/delayMS', 'delayMs'],
  [{ colour: 'blue' }, '/colour', undefined],
] as const) {
  test(`the unknown property ${path} is refused, ${meant ? `and ${meant} is suggested` : 'without a suggestion'}`, () => {
    const error = fault({ ...sampleTool(), ...changes })
    const message = error.details?.issues?.find((issue) => issue.path === path)?.message ?? ''
    assert.match(
      message,
      meant === undefined ? /^is not a known property[^"]*$/ : new RegExp(`did you mean "${meant}"`),
    )
    assert.ok(error.message.includes(`${path} is not`), error.message)
  })
}

test('a malformed schema is refused with SCHEMA_INVALID at its path within the definition', () => {
  const error = fault(sampleTool({ inputSchema: { type: 'object', properties: { a: { type: 'nonsense' } } } }))
  assert.equal(error.code, 'SCHEMA_INVALID')
  assert.ok(error.details?.issues?.[0]?.path.startsWith('/inputSchema/properties/a'), error.message)
})

test('a schema that contains itself is refused', () => {
  const schema: Record<string, unknown> = { type: 'object' }
  schema.properties = { self: schema }
  assert.equal(fault(sampleTool({ inputSchema: schema })).code, 'TOOL_INVALID')
})

test('a value that is not an object is refused as a definition', () => {
  for (const value of [undefined, null, 1, 'x', []]) assert.equal(fault(value).code, 'TOOL_INVALID')
})

test('tags are normalized and deduplicated', () => {
  assert.deepEqual(checkTool(sampleTool({ tags: ['Blue Sky', 'blue-sky', 'X.Y_z'] })).tool.tags, ['blue-sky', 'x.y_z'])
})

test('a function in the definition is dropped, and a function in a binding is kept', () => {
  const run = () => 1
  const { tool: checked } = checkTool({ ...sampleTool({ backends: [{ kind: 'local', run }] }), run } as Tool)
  assert.ok(!('run' in checked))
  assert.equal(checked.backends[0]?.run, run)
})

test('an error message about hostile text is short, printable ASCII', () => {
  const { message } = fault(sampleTool({ namespace: 'a\u001b[31m\u202e'.repeat(1_000) }))
  assert.match(message, /^[\x20-\x7e…]{1,400}$/)
})

test('each member is read once, and symbols, functions and undefined members are dropped', () => {
  let reads = 0
  const given = {
    ...sampleTool(),
    get title() {
      reads += 1
      return reads === 1 ? 'Add' : 5
    },
    docs: undefined,
    run: () => 1,
    [Symbol('own')]: 1,
  }
  const { tool } = checkTool(given as unknown as Tool)
  assert.deepEqual(tool, { ...sampleTool(), title: 'Add' })
  assert.deepEqual([Reflect.ownKeys(tool).length, reads], [Object.keys(sampleTool()).length + 1, 1])
  const hostile: unknown = JSON.parse(JSON.stringify(sampleTool()).replace('{', '{"__proto__":{"docs":"x"},'))
  assert.deepEqual(paths(hostile), ['/__proto__'])
})
