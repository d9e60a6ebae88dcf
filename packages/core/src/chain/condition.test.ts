import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Condition, type Json, ToolError } from '@gantry/contract'
import { compileCondition, holds } from './condition.ts'
import { chainLimits } from './limits.ts'

const prev = {
  yes: true,
  no: false,
  zero: 0,
  empty: '',
  nothing: null,
  n: 5,
  s: 'b',
  list: [1, { a: 1, b: 2 }],
  text: 'hello',
}

function read(when: unknown): { holds: boolean | string; issues: string[] } {
  const issues: string[] = []
  const check = compileCondition(when as Json, '/0/when', {
    issue: (path, message) => issues.push(`${path} ${message}`),
    reference: () => {},
  })
  try {
    return { holds: holds(check, { prev, input: null, steps: new Map() }, chainLimits()), issues }
  } catch (error) {
    return { holds: ToolError.is(error) ? `${error.code}: ${error.message}` : String(error), issues }
  }
}

const is = (when: Condition) => read(when).holds

test('a lone value holds unless it is false, null, 0 or empty text', () => {
  assert.deepEqual([is(true), is('{{prev.yes}}'), is('{{prev.list}}'), is('text')], [true, true, true, true])
  const not = [false, '{{prev.no}}', '{{prev.zero}}', '{{prev.empty}}', '{{prev.nothing}}', ''].map((when) => is(when))
  assert.deepEqual(not, [false, false, false, false, false, false])
})

test('values are compared as JSON, whatever the order of keys', () => {
  assert.equal(is({ value: '{{prev.list[1]}}', equals: { b: 2, a: 1 } }), true)
  assert.equal(is({ value: '{{prev.n}}', equals: '5' }), false)
  assert.equal(is({ value: '{{prev.n}}', notEquals: 5 }), false)
  assert.equal(is({ value: { a: 1, b: 2 }, in: '{{prev.list}}' }), true)
  assert.equal(is({ value: 'ell', in: '{{prev.text}}' }), true)
})

test('numbers and texts have an order; mixed kinds are an error, not a guess', () => {
  assert.equal(is({ value: '{{prev.n}}', greaterThan: 4 }), true)
  assert.equal(is({ value: '{{prev.s}}', lessThan: 'c' }), true)
  assert.match(String(is({ value: '{{prev.n}}', greaterThan: '4' })), /CHAIN_INVALID.*two numbers or two texts/)
  assert.match(String(is({ value: 1, in: 2 })), /CHAIN_INVALID.*needs a list/)
})

test('exists asks for a value other than null, and guards what follows it', () => {
  assert.equal(is({ exists: '{{prev.n}}' }), true)
  assert.equal(is({ exists: '{{prev.nothing}}' }), false)
  assert.equal(is({ exists: '{{prev.a.b.c}}' }), false)
  assert.equal(is({ all: [{ exists: '{{prev.a}}' }, '{{prev.a.b}}'] }), false)
  assert.equal(is({ any: [{ not: { exists: '{{prev.a}}' } }, '{{prev.a.b}}'] }), true)
  assert.match(String(is('{{prev.a.b}}')), /REFERENCE_INVALID/)
})

test('a condition of another shape is an issue with its path', () => {
  const issueOf = (when: unknown) => read(when).issues.join()
  assert.match(issueOf(7), /^\/0\/when must be text/)
  assert.match(issueOf({ value: 1, equal: 2 }), /unknown key "equal" \(did you mean "equals"\?\)/)
  assert.match(issueOf({ value: 1 }), /must be one of/)
  assert.match(issueOf({ exists: 'prev.n' }), /^\/0\/when\/exists must be one reference/)
  assert.match(issueOf({ all: { not: true } }), /^\/0\/when\/all must be a list/)
  assert.match(issueOf({ any: [true, { not: { all: [null] } }] }), /^\/0\/when\/any\/1\/not\/all\/0 must be text/)
})
