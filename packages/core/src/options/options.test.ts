import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import {
  above0,
  type Check,
  callback,
  either,
  flag,
  having,
  listOf,
  mapOf,
  number,
  oneOf,
  part,
  ruled,
  text,
  texts,
  whole,
} from './option.ts'
import { checkOptions, optionsCheck, refusal, unknownMembers } from './options.ts'

interface Sample {
  readonly name: string
  readonly attempts?: number
  readonly share?: number
  readonly waitMs?: number
  readonly mode?: 'fast' | 'slow'
  readonly quiet?: boolean
  readonly tags?: readonly string[]
  readonly proto?: string | readonly string[]
  readonly retry?: { readonly attempts: number; readonly delayMs?: number }
  readonly signal?: AbortSignal
  readonly onEvent?: () => void
  readonly source?: { get(): unknown; put(): unknown }
}

const sample = optionsCheck<Sample>({
  members: {
    name: text(20),
    attempts: whole(1, 100),
    share: number(0),
    waitMs: above0,
    mode: oneOf('fast', 'slow'),
    quiet: flag,
    tags: texts,
    proto: { anyOf: [text(), texts], description: 'a path or a list of paths' },
    retry: {
      type: 'object',
      properties: { attempts: whole(1), delayMs: number(0) },
      required: ['attempts'],
      additionalProperties: false,
    },
    signal: part((value) => value instanceof AbortSignal, 'an AbortSignal'),
    onEvent: callback,
    source: having('get', 'put'),
  },
  required: ['name'],
})

test('the schema of options has their data, that of checks included, and no functions', () => {
  const { schema } = optionsCheck<{ name: string; inner?: object; list?: object; onEvent?: object; odd?: string }>({
    members: {
      name: text(),
      inner: optionsCheck<{ quiet?: boolean }>({ members: { quiet: flag } }),
      list: listOf(ruled(() => undefined, 'a word')),
      onEvent: callback,
      odd: part(() => true, 'odd'),
    },
    required: ['name'],
  })
  assert.deepEqual(schema, {
    type: 'object',
    properties: {
      name: text(),
      inner: { type: 'object', properties: { quiet: flag }, required: [], additionalProperties: false },
      list: { type: 'array', items: { type: 'string', description: 'a word' } },
      odd: { description: 'odd' },
    },
    required: ['name'],
    additionalProperties: false,
  })
})

function messages(value: unknown, check: Check = sample): string[] {
  return check.issues(value, '').map(({ path, message }) => `${path} ${message}`)
}

test('valid options pass, and a member that is undefined counts as absent', () => {
  const full = {
    name: 'a',
    attempts: 3,
    share: 0.5,
    waitMs: 1,
    mode: 'fast',
    quiet: true,
    tags: ['x'],
    proto: ['y'],
    retry: { attempts: 1, delayMs: undefined },
    signal: new AbortController().signal,
    onEvent: () => undefined,
    source: { get: () => 1, put: () => 2 },
  }
  for (const value of [full, { name: 'a' }, { name: 'a', signal: undefined, attempts: undefined }]) {
    assert.equal(sample.fits(value), true)
    assert.deepEqual(messages(value), [])
  }
})

test('every failing path is reported once, in the order of the members, with the allowed values', () => {
  const wrong = {
    onEvent: 1,
    source: { get: () => 1 },
    signal: {},
    name: '',
    attempts: 101,
    share: Number.NaN,
    waitMs: 0,
    mode: 'fats',
    quiet: 'yes',
    tags: ['', 3],
    proto: [4],
    retry: { attempt: 2 },
  }
  assert.equal(sample.fits(wrong), false)
  assert.deepEqual(messages(wrong), [
    '/name must be a string of 1 to 20 characters',
    '/attempts must be a whole number from 1 to 100',
    '/share must be a number of at least 0',
    '/waitMs must be a number above 0',
    '/mode must be one of fast, slow (did you mean "fast"?)',
    '/quiet must be true or false',
    '/tags/0 must be a string that is not empty',
    '/tags/1 must be a string that is not empty',
    '/proto must be a path or a list of paths',
    '/retry/attempts is required and must be a whole number of at least 1',
    '/retry/attempt is not an option (did you mean "attempts"?)',
    '/signal must be an AbortSignal',
    '/onEvent must be a function',
    '/source must be an object with the functions get, put',
  ])
})

test('an unknown member is refused with the probable name, or with the list of all members', () => {
  const check = optionsCheck<{ a?: number; colour?: string }>({
    members: { a: whole(0), colour: text() },
    noun: 'part of a sample',
  })
  assert.deepEqual(messages({ color: 'red' }, check), ['/color is not part of a sample (did you mean "colour"?)'])
  assert.deepEqual(messages({ weight: 1 }, check), ['/weight is not part of a sample; there are a, colour'])
  assert.deepEqual(messages(JSON.parse('{"__proto__": 1, "a/b": 2}'), check), [
    '/__proto__ is not part of a sample; there are a, colour',
    '/a~1b is not part of a sample; there are a, colour',
  ])
  assert.deepEqual(unknownMembers({ colur: 1, a: 2 }, ['a', 'colour'], '/at', 'an option'), [
    { path: '/at/colur', message: 'is not an option (did you mean "colour"?)' },
  ])
})

test('a value that is not an object is refused at the root path', () => {
  for (const value of [undefined, null, 1, 'x', []]) {
    assert.equal(sample.fits(value), false)
    assert.deepEqual(messages(value), [' must be an object'])
  }
})

test('a missing function or custom-checked member is reported with what it must be', () => {
  const check = optionsCheck<{ run: () => void; id: string }>({
    members: { run: callback, id: ruled(() => undefined, 'a string such as "a"') },
    required: ['run', 'id'],
  })
  assert.equal(check.fits({ run: () => undefined, id: 'x' }), true)
  assert.equal(check.fits({ run: () => undefined }), false)
  assert.deepEqual(messages({}, check), [
    '/run is required and must be a function',
    '/id is required and must be a string such as "a"',
  ])
})

test('checks nest, and nested issues carry the full path', () => {
  const inner = optionsCheck<{ n: number; f?: () => void }>({
    members: { n: whole(1), f: callback },
    required: ['n'],
  })
  const check = optionsCheck<{ list?: unknown; map?: unknown; one?: unknown }>({
    members: {
      list: listOf(inner),
      map: mapOf(inner, (key) => (key.startsWith('x') ? 'must not begin with x' : undefined)),
      one: either(
        part((value) => value === false, 'false'),
        ruled((value) => (value === 'ok' ? undefined : 'must be ok')),
      ),
    },
  })
  assert.equal(check.fits({ list: [{ n: 1 }], map: { a: { n: 2 } }, one: false }), true)
  assert.equal(check.fits({ one: 'ok' }), true)
  assert.deepEqual(messages({ list: [{ n: 1 }, { n: 0, f: 2 }], map: { xa: { n: 1 }, b: {} }, one: 'no' }, check), [
    '/list/1/n must be a whole number of at least 1',
    '/list/1/f must be a function',
    '/map/xa must not begin with x',
    '/map/b/n is required and must be a whole number of at least 1',
    '/one must be ok',
  ])
})

test('checkOptions throws one error with the given code and every issue', () => {
  assert.throws(
    () => checkOptions('options of sample', sample, { attempts: 0, nam: 'x' }),
    (error) => {
      assert.ok(ToolError.is(error))
      assert.equal(error.code, 'CONFIG_INVALID')
      assert.match(
        error.message,
        /^Invalid options of sample: \/nam is not an option \(did you mean "name"\?\); \/name /,
      )
      assert.equal(error.details?.issues?.length, 3)
      return true
    },
  )
  assert.throws(() => checkOptions('call', sample, {}, 'INPUT_INVALID'), { code: 'INPUT_INVALID' })
  const many = Array.from({ length: 30 }, (_, index) => ({ path: `/${index}`, message: 'is odd' }))
  assert.match(refusal('list', many).message, /\/19 is odd; and 10 more\.$/)
})
