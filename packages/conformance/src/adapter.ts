import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { Adapter, AdapterCall, AdapterOptions, Loss, RefusedCall } from '@gantry/adapters/internal/adapter'
import { type Content, type Json, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { at, entryOf, keywordsOf, resultOf, someArgs, someIds, someSchemas } from './adapter-samples.ts'

/** The contract of Adapter. */
export function testAdapter<T, R>(name: string, fixture: AdapterFixture<T, R>): void {
  testTools(name, fixture)
  testCalls(name, fixture)
  testResults(name, fixture)
}

const anyFormat = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/

function testTools<T, R>(name: string, { create, names }: AdapterFixture<T, R>): void {
  test(`${name}: every tool has a name that all formats accept, and the name resolves to exactly that tool`, () => {
    const property = fc.property(someIds, (ids) => {
      const adapter = create()
      const written = adapter.tools(ids.map((id) => entryOf(id)))
      const found = names(written.tools)
      assert.equal(new Set(found).size, ids.length)
      assert.ok(found.every((each) => anyFormat.test(each)))
      const back = adapter.read(written.tools, { names: written.names }).tools
      assert.deepEqual(
        back.map(({ namespace, name, version }) => ({ namespace, name, version })),
        ids.map(({ namespace, name, version }) => ({ namespace, name, version })),
      )
    })
    fc.assert(property, { numRuns: 50 })
  })

  test(`${name}: every keyword of a schema survives a round trip, or a warning names it`, () => {
    const property = fc.property(someSchemas, (inputSchema) => {
      const adapter = create()
      const { tools, names, warnings } = adapter.tools([entryOf({ inputSchema })])
      const [back] = adapter.read(tools, { names }).tools
      assert.ok(back !== undefined)
      for (const { path, keyword, value, isLeaf } of keywordsOf(inputSchema, '')) {
        const now = at(back.inputSchema, path)
        const same = now !== undefined && (!isLeaf || isKept(keyword, value, now))
        assert.ok(same || isReported(warnings, `/inputSchema${path}`), `${path} became ${JSON.stringify(now)} silently`)
      }
    })
    fc.assert(property, { numRuns: 100 })
  })

  test(`${name}: invisible characters in descriptions are removed with a warning`, () => {
    const hidden = 'Adds.\u{E0049}\u{E0067}\u{E006E}\u200B\u202E\u0007 Two numbers.'
    const properties = { a: { type: 'number', description: `First\u{E0041}.` } }
    const entry = entryOf({ description: hidden, inputSchema: { type: 'object', properties } })
    const shown = create().tools([entry])
    const text = JSON.stringify(plain(shown.tools))
    assert.ok(text.includes('Adds. Two numbers.') && text.includes('First.'))
    assert.doesNotMatch(text, /[\u{E0000}-\u{E007F}\u200B\u202E]/u)
    assert.deepEqual(
      shown.warnings.filter(({ message }) => /cannot see/.test(message)).map(({ path }) => path),
      ['/description', '/inputSchema/properties/a/description'],
    )
    assert.match(JSON.stringify(plain(create({ clean: false }).tools([entry]).tools)), /\u{E0049}/u, 'the control')
  })

  test(`${name}: the returned tools are copies that the caller owns, and a repeated entry is listed once`, () => {
    const entry = entryOf()
    const before = JSON.stringify(entry)
    const { tools } = create().tools([entry, entry])
    assert.equal(names(tools).length, 1)
    wreck(tools)
    assert.equal(JSON.stringify(entry), before)
    assert.equal(names(create().tools([entry]).tools).length, 1)
  })

  test(`${name}: a value that is not a list of tools is refused as TOOL_INVALID`, () => {
    for (const tools of [null, 5, 'x', [null], [5], [[]]]) {
      assert.throws(() => create().read(tools), isError('TOOL_INVALID'), JSON.stringify(tools))
    }
  })

  test(`${name}: an unknown option is refused with a suggestion`, () => {
    assert.throws(() => create({ maxChar: 1_000 } as AdapterOptions), /maxChar is not an option.*maxChars/)
    assert.throws(() => create({ maxChars: 1 }), isError('CONFIG_INVALID'))
  })
}

function testCalls<T, R>(name: string, fixture: AdapterFixture<T, R>): void {
  const { create, message, argsAreText, oneCall, hasIds } = fixture
  const entries = [entryOf(), entryOf({ name: 'sum' })]
  const written = create().tools(entries)
  const [add = '', sum = ''] = written.names.list
  const calls = (of: unknown): readonly (AdapterCall | RefusedCall)[] => create().calls(of, written.names)
  const one = (args: unknown, id = 'c1', tool = add): unknown =>
    message([{ id, name: tool, args: argsAreText && typeof args !== 'string' ? JSON.stringify(args) : args }])

  test(`${name}: a call is read with its tool, its arguments and the digest of the listed schema`, () => {
    const property = fc.property(someArgs, (args) => {
      const [call] = calls(one(args))
      assert.ok(call?.ok)
      assert.deepEqual(call.args, args)
      assert.equal(call.tool, 'math:add:1.0.0')
      assert.equal(call.schemaDigest, entries[0]?.digest)
      assert.equal(call.callId, hasIds ? 'c1' : undefined)
    })
    fc.assert(property, { numRuns: 100 })
  })

  test(`${name}: several calls keep their order, and a duplicate id refuses all of them`, () => {
    if (oneCall === true) return
    const args = argsAreText ? '{"a":1}' : { a: 1 }
    const both = calls(
      message([
        { id: 'x', name: sum, args },
        { id: 'y', name: add, args },
      ]),
    )
    assert.deepEqual(
      both.map((call) => call.name),
      [sum, add],
    )
    const twice = message([
      { id: 'x', name: sum, args },
      { id: 'x', name: add, args },
    ])
    if (hasIds) assert.throws(() => calls(twice), isError('PAYLOAD_INVALID'))
    const many = Array.from({ length: 200 }, (_, index) => ({ id: `c${index}`, name: add, args }))
    assert.throws(() => calls(message(many)), isError('PAYLOAD_INVALID'))
  })

  test(`${name}: a call of an unknown tool is refused with the nearest name, and the other calls are read`, () => {
    for (const wrong of [`${add}d`, 'constructor', 'toString', '__proto__', 'math:add', '\u202E']) {
      const [call] = calls(one({ a: 1 }, 'c1', wrong))
      assert.ok(call?.ok === false && call.error.code === 'TOOL_NOT_FOUND', wrong)
    }
    const [call] = calls(one({}, 'c1', `${add}d`))
    assert.ok(call?.ok === false)
    const { text, isError, id } = fixture.readResult(create().result(call, call.error))
    assert.match(text, /TOOL_NOT_FOUND.*\nDid you mean math__add\?/)
    assert.notEqual(isError, false)
    assert.equal(id, hasIds ? 'c1' : undefined)
  })

  test(`${name}: arguments that cannot be parsed are INPUT_INVALID, and nothing is called`, () => {
    const wrong: unknown[] = [
      [1],
      5,
      true,
      'text',
      JSON.parse('{"__proto__":{"admin":true}}'),
      deep(200),
      { big: 'x'.repeat(10_485_760) },
    ]
    const texts = ['{"a":1', '{"a":1,}', '{"a":1,"a":2}', '[]', 'null', '{"a":12345678901234567890}', '{"__proto__":1}']
    for (const args of argsAreText ? texts : wrong) {
      const [call] = calls(one(args))
      assert.ok(call?.ok === false && call.error.code === 'INPUT_INVALID', String(JSON.stringify(args)).slice(0, 80))
      assert.ok(fixture.readResult(create().result(call, call.error)).text.length < 2_000)
    }
    if (argsAreText) {
      const [huge] = calls(one(JSON.stringify({ big: 'x'.repeat(10_485_760) })))
      assert.ok(huge?.ok === false && huge.error.code === 'INPUT_INVALID')
    }
    assert.equal(({} as { admin?: boolean }).admin, undefined)
  })

  test(`${name}: any malformed message throws only a ToolError`, () => {
    const trap = new Proxy({}, { get: throws, getOwnPropertyDescriptor: throws, has: throws, ownKeys: throws })
    const traps: readonly unknown[] = [undefined, trap, [trap], { a: trap }, () => 1, 10n, Symbol('x'), Number.NaN]
    const calm = (value: unknown): void => {
      try {
        for (const call of calls(value)) assert.equal(typeof call.ok, 'boolean')
      } catch (error) {
        assert.ok(ToolError.is(error), String(error))
      }
    }
    for (const value of traps) {
      calm(value)
      calm(message([{ id: value as string, name: add, args: value }]))
      calm(message([{ id: 'x', name: value as string, args: value }]))
      calm(message([{ id: 'x', name: add, args: value }]))
    }
    const parts = fc.jsonValue()
    const property = fc.property(parts, parts, parts, (id, called, args) => {
      calm(id)
      calm(message([{ id: id as string, name: called as string, args }]))
      calm(message([{ id: 'x', name: add, args }]))
    })
    fc.assert(property, { numRuns: 200 })
  })
}

/** A warning about this keyword, or about one that it stands in. */
function isReported(warnings: readonly Loss[], path: string): boolean {
  return warnings.some((loss) => loss.path.endsWith(`/${loss.keyword}`) && `${path}/`.startsWith(`${loss.path}/`))
}

/** Data is as it was; only a description may have grown by notes, and a type by null. */
function isKept(keyword: string, before: unknown, now: unknown): boolean {
  if (keyword === 'description') return String(now).startsWith(String(before))
  if (keyword === 'type' && Array.isArray(now) && typeof before === 'string') return now.includes(before)
  if (keyword === 'required') return Array.isArray(now) && (before as unknown[]).every((name) => now.includes(name))
  return isDeepStrictEqual(now, before)
}

function throws(): never {
  throw new TypeError('not for you')
}

function deep(levels: number): unknown {
  let value: unknown = {}
  for (let level = 0; level < levels; level++) value = { inside: value }
  return value
}

/** Data without the functions and symbols of a framework's objects. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

/** Changes everything that can be changed. */
function wreck(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) {
    const holder = value as { [key: string]: unknown }
    if (typeof holder[key] === 'object') wreck(holder[key])
    else holder[key] = 'wrecked'
  }
}

/** How a suite talks to one format as its model and its framework would. */
export interface AdapterFixture<T, R> {
  readonly create: (options?: AdapterOptions) => Adapter<T, R>
  /** The names in a list of tools. */
  readonly names: (tools: T) => readonly string[]
  /** A message of the model that asks for calls. */
  readonly message: (calls: readonly { id: string; name: string; args: unknown }[]) => unknown
  /** The text that a model reads of a result; `isError` is absent where the format cannot say it. */
  readonly readResult: (message: R) => { id?: string | undefined; isError?: boolean; text: string; images: number }
  /** The arguments of a call are JSON text in this format. */
  readonly argsAreText: boolean
  /** A message has one call at most. */
  readonly oneCall?: boolean
  /** Calls have ids in this format. */
  readonly hasIds: boolean
  readonly holdsImages: boolean
}

/** Whether what was thrown is a ToolError of this code. */
export function isError(code: string): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === code
}

/** The part of Adapter's contract that is about results. */
export function testResults<T, R>(name: string, fixture: AdapterFixture<T, R>): void {
  const { create, readResult, hasIds, holdsImages } = fixture
  const call: AdapterCall = {
    ok: true,
    ...(hasIds ? { callId: 'c1' } : {}),
    name: 'math__add',
    tool: 'math:add:1.0.0',
    args: {},
    schemaDigest: '',
  }
  const read = (parts: Parameters<typeof resultOf>[0], options?: AdapterOptions) =>
    readResult(create(options).result(call, resultOf(parts)))

  test(`${name}: an output reaches the model complete, under the id of its call`, () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const output = JSON.parse(JSON.stringify(value).replaceAll('"__proto__"', '"proto"')) as Json
      const { id, isError, text } = read({ output })
      assert.equal(text, typeof output === 'string' ? output : JSON.stringify(output))
      assert.notEqual(isError, true)
      assert.equal(id, hasIds ? 'c1' : undefined)
    })
    fc.assert(property, { numRuns: 100 })
  })

  test(`${name}: a failure has its code, message, failing paths and remedy`, () => {
    const issues = [{ path: '/a', message: 'must be number, but is string' }]
    const error = { code: 'INPUT_INVALID', message: 'The arguments are wrong.', details: { issues } } as const
    const failed = read({
      status: 'failed',
      error: { stage: 'validate-input', retryable: false, effect: 'none', ...error },
    })
    assert.match(failed.text, /^Error INPUT_INVALID: The arguments are wrong\.\n- \/a must be number, but is string\n/)
    assert.match(failed.text, /Nothing has happened\. Correct this and call the tool again\.$/)
    assert.notEqual(failed.isError, false)
    const late = read({
      status: 'timeout',
      error: { code: 'TIMEOUT', message: 'Too late.', stage: 'execute', retryable: true, effect: 'possible' },
    })
    assert.match(late.text, /TIMEOUT: Too late\.\nIt may have taken effect/)
  })

  test(`${name}: a long text keeps its beginning and its end within the limit`, () => {
    const output = `begin ${'x'.repeat(100_000)} end`
    const { text } = read({ output }, { maxChars: 1_000 })
    assert.ok(text.length <= 1_000)
    assert.match(text, /^begin x+/)
    assert.match(text, /100010 characters in all[\s\S]*x end$/)
    const blocks: Content[] = Array.from({ length: 50 }, (_, index) => ({ type: 'text', text: `${index} ${output}` }))
    assert.ok(read({ content: blocks }, { maxChars: 1_000 }).text.length <= 1_200)
    assert.ok(read({ output }).text.length <= 50_000)
  })

  test(`${name}: an image is kept where the format has images and described where it has none`, () => {
    const image: Content = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }
    const { text, images } = read({ content: [{ type: 'text', text: 'A chart:' }, image] })
    assert.equal(images, holdsImages ? 1 : 0)
    assert.equal(/\[image image\/png, about 9 bytes, not shown here\]/.test(text), !holdsImages)
    assert.match(text, /^A chart:/)
    const broken: Content = JSON.parse('{"type": "image"}')
    assert.equal(typeof read({ content: [broken, {} as Content] }).text, 'string')
  })

  test(`${name}: resource links and resource texts reach the model`, () => {
    const content: Content[] = [
      { type: 'resource', resource: { uri: 'file:///a.txt', text: 'inside' } },
      { type: 'resource_link', uri: 'file:///b.txt', name: 'b' },
    ]
    const { text } = read({ content })
    assert.match(text, /inside[\s\S]*file:\/\/\/b\.txt/)
  })
}
