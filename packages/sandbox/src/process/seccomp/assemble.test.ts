import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assemble, type Rule, toBytes } from './filters.ts'
import { evaluate } from './interpreter.fixture.ts'

test('the assembler reaches every rule, also beyond the range of one jump', () => {
  const rules = Array.from({ length: 600 }, (_, index): Rule => {
    const check = { argument: 5, mask: 0xff, only: [index % 200, 250], errno: 1 }
    return { first: index * 3, action: { errno: index }, checks: index % 2 === 0 ? [check] : [] }
  })
  const program = toBytes(assemble(7, rules))
  assert.ok(program.byteLength / 8 > 2_000)
  const verdict = (number: number, last: number): string =>
    evaluate(program, { architecture: 7, number, arguments: [0, 0, 0, 0, 0, last].map(BigInt) }).action
  for (let number = 0; number < 1_800; number += 1) {
    const index = Math.floor(number / 3)
    assert.equal(verdict(number, 250), `errno ${index}`)
    assert.equal(verdict(number, 251), index % 2 === 0 ? 'errno 1' : `errno ${index}`)
  }
  assert.equal(verdict(0xffff_ffff, 250), 'errno 599')
})

test('a forbidden argument value is refused; other values continue to the next check', () => {
  const checks = [
    { argument: 0, never: [1, 2, 3], errno: 5 },
    { argument: 1, only: [9], errno: 6 },
  ]
  const program = toBytes(assemble(7, [{ first: 0, action: 'allow', checks }]))
  const verdict = (...args: number[]): string =>
    evaluate(program, { architecture: 7, number: 0, arguments: args.map(BigInt) }).action
  for (const value of [1, 2, 3]) assert.equal(verdict(value, 9), 'errno 5')
  assert.equal(verdict(0, 9), 'allow')
  assert.equal(verdict(4, 8), 'errno 6')
})
