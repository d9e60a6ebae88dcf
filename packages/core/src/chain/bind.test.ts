import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { chainLimits } from './limits.ts'
import { formatPath, type Scope } from './reference.ts'
import { bind, compileTemplate } from './template.ts'

function scopeOf(prev: Json, input: Json = null, steps: { [id: string]: JsonObject } = {}): Scope {
  return { prev, input, steps: new Map(Object.entries(steps)) }
}

function bound(value: Json, scope: Scope, limits = {}): Json {
  const template = compileTemplate(value, '', {
    issue: (path, fault) => assert.fail(path + fault),
    reference: () => {},
  })
  return bind(template, scope, chainLimits(limits))
}

function errorOf(work: () => unknown): ToolError {
  try {
    work()
  } catch (error) {
    if (ToolError.is(error)) return error
    throw error
  }
  return assert.fail('nothing was thrown')
}

const json = fc
  .jsonValue({ noUnicodeString: false, maxDepth: 4 })
  .map((value) => JSON.parse(JSON.stringify(value)) as Json)
  // This key is refused; another test covers that.
  .filter((value) => !JSON.stringify(value).includes('"__proto__"'))
const hostileKey = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'length'))

test('a template that is one reference keeps the type of its value', () => {
  fc.assert(
    fc.property(json, (value) => assert.deepEqual(bound({ x: '{{prev.v}}' }, scopeOf({ v: value })), { x: value })),
  )
})

test('a reference inside text becomes text, and an object becomes JSON', () => {
  const prev = { n: 7, s: 'a', o: { k: [1, null] }, no: null }
  assert.equal(bound('{{prev.n}}/{{prev.s}}/{{prev.o}}/{{prev.no}}', scopeOf(prev)), '7/a/{"k":[1,null]}/null')
})

test('a bound value is not expanded again', () => {
  const attack = fc.constantFrom('{{input.secret}}', '\\{{input.secret}}', '{{', '}}', '{{steps.a.output}}', 'x')
  fc.assert(
    fc.property(fc.array(attack), (pieces) => {
      const text = pieces.join('')
      const scope = scopeOf({ text, [text]: text }, { secret: 'S3CRET' })
      assert.deepEqual(
        bound({ lone: '{{prev.text}}', mixed: '<{{prev.text}}{{prev.text}}>', all: '{{prev}}' }, scope),
        {
          lone: text,
          mixed: `<${text}${text}>`,
          all: { text, [text]: text },
        },
      )
    }),
  )
})

test('bound values are copies of their sources', () => {
  const prev = { list: [{ n: 1 }] }
  const args = bound({ a: '{{prev.list}}', b: '{{prev.list}}' }, scopeOf(prev)) as {
    a: { n: number }[]
    b: { n: number }[]
  }
  for (const item of args.a) item.n = 2
  assert.deepEqual([prev.list, args.b], [[{ n: 1 }], [{ n: 1 }]])
})

test('hostile keys are copied as plain data or refused, and do not reach a prototype', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(hostileKey, fc.constantFrom<Json>(1, { polluted: true }))), (members) => {
      const prev = JSON.parse(
        `{${members.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`,
      )
      const work = () => bound({ copy: '{{prev}}' }, scopeOf(prev)) as { copy: JsonObject }
      if (Object.hasOwn(prev, '__proto__')) assert.equal(errorOf(work).code, 'REFERENCE_INVALID')
      else {
        const { copy } = work()
        assert.deepEqual(copy, prev)
        assert.equal(Object.getPrototypeOf(copy), Object.prototype)
      }
      assert.equal((Object.prototype as { polluted?: unknown }).polluted, undefined)
    }),
  )
})

test('a reference reads only own members and the length of a list', () => {
  const scope = scopeOf({ list: [1, 2], text: 'abc', o: {} })
  assert.equal(bound('{{prev.list.length}}', scope), 2)
  assert.equal(bound('{{prev.list.1}}', scope), 2)
  const names = [
    'o.constructor',
    'o.__proto__',
    'o.toString',
    'list.map',
    'list[2]',
    'list.01',
    'text.length',
    'text[0]',
  ]
  for (const name of names)
    assert.equal(errorOf(() => bound(`{{prev.${name}}}`, scope)).code, 'REFERENCE_INVALID', name)
})

test('every own member can be referenced, whatever its name', () => {
  fc.assert(
    fc.property(fc.string(), fc.integer(), (key, value) => {
      fc.pre(key !== '__proto__')
      assert.equal(bound(`{{${formatPath('prev', [key])}}}`, scopeOf({ [key]: value })), value)
    }),
  )
})

test('the error for a missing path names the reference, the missing part and the existing keys', () => {
  const keys = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`key${index}`, index]))
  const error = errorOf(() =>
    bound({ id: '{{steps.issue.output.a.nmber}}' }, scopeOf(null, null, { issue: { output: { a: keys } } })),
  )
  assert.equal(error.code, 'REFERENCE_INVALID')
  assert.match(
    error.message,
    /^\{\{steps\.issue\.output\.a\.nmber\}\} does not exist: steps\.issue\.output\.a is an object and has no "nmber"; it has "key0", .* and 20 more\.$/,
  )
  assert.equal(error.details?.missing, 'nmber')
  assert.match(errorOf(() => bound('{{prev.a}}', scopeOf(null))).message, /prev is null and has no "a"/)
})

test('arguments that become too large or too deep by binding are refused', () => {
  const big = 'x'.repeat(1_000)
  const text = errorOf(() => bound('{{prev}}{{prev}}', scopeOf(big), { argsBytes: 1_500 }))
  const list = errorOf(() => bound(['{{prev}}', '{{prev}}'], scopeOf(big), { argsBytes: 1_500 }))
  const deep = errorOf(() => bound([['{{prev}}']], scopeOf([[1]]), { argsDepth: 3 }))
  assert.deepEqual([text.code, list.code, deep.code], ['LIMIT_EXCEEDED', 'LIMIT_EXCEEDED', 'LIMIT_EXCEEDED'])
  assert.deepEqual([text.effect, list.details?.limit, deep.details?.limit], ['none', 'argsBytes', 'argsDepth'])
})

test('arguments of many long texts are refused before all of them are built', () => {
  const scope = scopeOf(null, { a: Array(50_000).fill(1) })
  const error = errorOf(() => bound({ list: Array(30_000).fill('{{input.a}}!') }, scope))
  assert.deepEqual([error.code, error.details?.limit], ['LIMIT_EXCEEDED', 'argsBytes'])
})

test('an error quotes only the beginning of a long reference', () => {
  const error = errorOf(() => bound(`{{prev.a.${'k'.repeat(10_000)}}}`, scopeOf({ a: {} })))
  assert.equal(error.code, 'REFERENCE_INVALID')
  assert.ok(JSON.stringify([error.message, error.details]).length < 1_200)
})
