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

test('a condition of one value holds unless it is false, null, 0 or empty text', () => {
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

test('numbers and texts are ordered; comparing mixed types is an error', () => {
  assert.equal(is({ value: '{{prev.n}}', greaterThan: 4 }), true)
  assert.equal(is({ value: '{{prev.s}}', lessThan: 'c' }), true)
  assert.match(String(is({ value: '{{prev.n}}', greaterThan: '4' })), /CHAIN_INVALID.*two numbers or two texts/)
  assert.match(String(is({ value: 1, in: 2 })), /CHAIN_INVALID.*needs a list/)
})

test('exists is true for a value other than null, and guards later references', () => {
  assert.equal(is({ exists: '{{prev.n}}' }), true)
  assert.equal(is({ exists: '{{prev.nothing}}' }), false)
  assert.equal(is({ exists: '{{prev.a.b.c}}' }), false)
  assert.equal(is({ all: [{ exists: '{{prev.a}}' }, '{{prev.a.b}}'] }), false)
  assert.equal(is({ any: [{ not: { exists: '{{prev.a}}' } }, '{{prev.a.b}}'] }), true)
  assert.match(String(is('{{prev.a.b}}')), /REFERENCE_INVALID/)
})

test('a malformed condition is an issue with its path', () => {
  const issueOf = (when: unknown) => read(when).issues.join()
  assert.match(issueOf(7), /^\/0\/when must be text/)
  assert.match(issueOf({ value: 1, equal: 2 }), /unknown key "equal" \(did you mean "equals"\?\)/)
  assert.match(issueOf({ value: 1 }), /must be one of/)
  assert.match(issueOf({ exists: 'prev.n' }), /^\/0\/when\/exists must be one reference/)
  assert.match(issueOf({ all: { not: true } }), /^\/0\/when\/all must be a list/)
  assert.match(issueOf({ any: [true, { not: { all: [null] } }] }), /^\/0\/when\/any\/1\/not\/all\/0 must be text/)
})

const limitOf = (when: Condition, input: Json, limits = {}) => {
  const check = compileCondition(when as Json, '', { issue: (_, message) => assert.fail(message), reference: () => {} })
  try {
    return holds(check, { prev, input, steps: new Map() }, chainLimits(limits))
  } catch (error) {
    return ToolError.is(error) ? [error.code, error.details?.limit] : error
  }
}
const over = ['LIMIT_EXCEEDED', 'evaluationBytes']

test('one size limit covers all references of a condition', () => {
  const input = { a: 'x'.repeat(1_000_000), list: Array(50_000).fill(1) }
  assert.deepEqual(limitOf({ value: Array(30_000).fill('{{input.a}}!'), equals: 1 }, input), over)
  assert.deepEqual(limitOf({ value: Array(30_000).fill('{{input.list}}!'), equals: 1 }, input), over)
  assert.deepEqual(limitOf({ value: Array(30_000).fill('{{input.list}}'), equals: 1 }, input), over)
  assert.deepEqual(limitOf({ any: Array(30_000).fill({ value: '{{input.a}}!', equals: 1 }) }, input), over)
  assert.deepEqual(limitOf('{{input.a}}{{input.a}}', input, { evaluationBytes: 1_500_000 }), over)
})

test('evaluationBytes does not limit a value that is referenced without being copied', () => {
  const input = { list: Array(50_000).fill(1) }
  assert.equal(limitOf({ value: '{{input.list}}', equals: '{{input.list}}' }, input, { evaluationBytes: 100 }), true)
  assert.equal(limitOf({ value: '{{input.list}}', in: [[1], 2] }, input, { evaluationBytes: 100 }), false)
})

test('the search for a large value in a long list is limited', () => {
  const large = (last: number) => [...Array(50_000).fill(1), last]
  const list = (count: number) => Array.from({ length: count }, () => large(2))
  const input = { left: large(3), few: list(3), many: Array(30_000).fill(large(2)) }
  assert.equal(limitOf({ value: '{{input.left}}', in: '{{input.few}}' }, input), false)
  assert.deepEqual(limitOf({ value: '{{input.left}}', in: '{{input.many}}' }, input), over)
})
