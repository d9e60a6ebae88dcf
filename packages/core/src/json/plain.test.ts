import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { copyJson, JsonError } from './plain.ts'

function faultOf(work: () => unknown): JsonError {
  try {
    work()
  } catch (error) {
    assert.ok(error instanceof JsonError, String(error))
    return error
  }
  return assert.fail('nothing was thrown')
}

test('a plain copy equals its JSON original and shares no object with it', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value))
      if (JSON.stringify(plain).includes('"__proto__"')) return
      const copied = copyJson(plain)
      assert.deepEqual(copied, plain)
      if (typeof copied === 'object' && copied !== null) assert.notEqual(copied, plain)
    }),
  )
})

test('a getter is read once, and a proxy leaves no live reference in the copy', () => {
  let reads = 0
  const shifty = {
    get value() {
      return ++reads
    },
  }
  const proxied = new Proxy({ a: 1 }, { get: () => 7 })
  const copied = copyJson({ shifty, proxied }) as { shifty: { value: number }; proxied: { a: number } }
  assert.equal(copied.shifty.value, 1)
  assert.equal(copied.shifty.value, 1)
  assert.deepEqual(copied.proxied, { a: 7 })
  assert.equal(Object.getOwnPropertyDescriptor(copied.shifty, 'value')?.get, undefined)
})

test('a getter that throws is an error at its path, with the thrown value as cause', () => {
  const fault = faultOf(() =>
    copyJson({
      a: [
        {
          get b() {
            throw new Error('boom')
          },
        },
      ],
    }),
  )
  assert.equal(fault.path, '/a/0/b')
  assert.equal((fault.cause as Error).message, 'boom')
})

test('a value that JSON cannot represent is refused with its path', () => {
  const cases: [unknown, string][] = [
    [{ a: 1n }, '/a'],
    [{ a: { b: () => 1 } }, '/a/b'],
    [[Number.NaN], '/0'],
    [{ 'x/y': Number.POSITIVE_INFINITY }, '/x~1y'],
    [{ when: new Date(0) }, '/when'],
    [{ set: new Set([1]) }, '/set'],
    [{ later: Promise.resolve(1) }, '/later'],
    [Symbol('s'), ''],
  ]
  for (const [value, path] of cases) assert.equal(faultOf(() => copyJson(value)).path, path)
})

test('with conversion, dates and objects with toJSON are copied as JSON.stringify writes them', () => {
  const value = { at: new Date(0), link: new URL('http://localhost/a'), own: { toJSON: () => 5 } }
  const expected = { at: '1970-01-01T00:00:00.000Z', link: 'http://localhost/a' }
  assert.deepEqual(copyJson({ at: value.at, link: value.link }, { convert: true }), expected)
})

test('a cyclic or too deeply nested value is refused without a stack overflow', () => {
  const loop: { self?: unknown } = {}
  loop.self = loop
  assert.equal(faultOf(() => copyJson(loop)).fault, 'too-deep')
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level++) deep = [deep]
  assert.equal(faultOf(() => copyJson(deep)).fault, 'too-deep')
})

test('size is limited in bytes and in members, also for arrays with holes', () => {
  const limits = { bytes: 100, depth: 10, nodes: 10 }
  assert.equal(faultOf(() => copyJson('x'.repeat(101), { limits })).fault, 'too-large')
  assert.equal(faultOf(() => copyJson('é'.repeat(60), { limits })).fault, 'too-large')
  assert.equal(faultOf(() => copyJson(Array(11).fill(0), { limits })).fault, 'too-large')
  assert.equal(faultOf(() => copyJson(new Array(4_000_000_000), {})).fault, 'too-large')
})

test('a __proto__ key is refused, or dropped and counted, and never reaches a prototype', () => {
  const hostile: unknown = JSON.parse('{"a":{"__proto__":{"polluted":true}}}')
  assert.equal(faultOf(() => copyJson(hostile)).path, '/a/__proto__')
  const dropped = { count: 0 }
  const copied = copyJson(hostile, { dropped }) as { a: { polluted?: boolean } }
  assert.equal(dropped.count, 1)
  assert.equal(copied.a.polluted, undefined)
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})

test('no key of any object can change a prototype', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom('__proto__', 'constructor', 'prototype', 'a'), fc.jsonValue()),
      (value) => {
        copyJson(JSON.parse(JSON.stringify(value)), { dropped: { count: 0 } })
        assert.deepEqual(Object.keys(Object.prototype), [])
        assert.equal(Object.getPrototypeOf(copyJson({})), Object.prototype)
      },
    ),
  )
})

test('a frozen copy reads each member once and holds no symbols, undefined or foreign objects', () => {
  let reads = 0
  const inner = { list: [1, { deep: true }] }
  const given = {
    get value() {
      return ++reads
    },
    inner,
    none: undefined,
    [Symbol('hidden')]: { alive: true },
  }
  const copied = copyJson(given, { freeze: true }) as { value: number; inner: typeof inner }
  assert.deepEqual(copied, { value: 1, inner: { list: [1, { deep: true }] } })
  assert.equal(reads, 1)
  assert.deepEqual(Object.getOwnPropertySymbols(copied), [])
  assert.notEqual(copied.inner, inner)
  for (const part of [copied, copied.inner, copied.inner.list, copied.inner.list[1]]) assert.ok(Object.isFrozen(part))
  const throwing = {
    a: {
      get b(): never {
        throw new Error('boom')
      },
    },
  }
  assert.equal(faultOf(() => copyJson(throwing, { freeze: true })).path, '/a/b')
  const hostile: unknown = JSON.parse('{"a":{"__proto__":{"polluted":true}}}')
  assert.equal(faultOf(() => copyJson(hostile, { freeze: true })).path, '/a/__proto__')
  const dropped = { count: 0 }
  assert.deepEqual(copyJson(hostile, { freeze: true, dropped }), { a: {} })
  assert.equal(dropped.count, 1)
})
