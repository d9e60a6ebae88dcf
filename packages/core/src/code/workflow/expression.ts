import { didYouMean } from '../../search/near.ts'
import { type Cursor, shown } from './cursor.ts'
import { workflowFunctions } from './functions.ts'
import type { Expression, Member } from './syntax.ts'
import type { Token } from './tokens.ts'

/** Signs by how strongly they bind, the weakest first; words stand for the signs of other languages. */
const levels: readonly (readonly string[])[] = [
  ['??'],
  ['||', 'or'],
  ['&&', 'and'],
  ['==', '!=', '<', '<=', '>', '>=', 'in'],
  ['+', '-'],
  ['*', '/', '%'],
]
const sameAs: { readonly [word: string]: string } = { or: '||', and: '&&' }
const constants: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
])

/** Words that are no names. */
export const reserved: ReadonlySet<string> = new Set([
  ...constants.keys(),
  ...['if', 'else', 'for', 'in', 'while', 'retry', 'try', 'catch', 'return', 'break', 'continue', 'and', 'or', 'not'],
])

/** Reads an expression, which is not deeper than can be written; `used` hears of each variable in it. */
export function readExpression(cursor: Cursor, used: (name: Token) => void): Expression {
  const whole = (): Expression => cursor.deeper(choice)
  const choice = (): Expression => {
    const test = pair(0)
    if (!cursor.is('?')) return test
    const at = cursor.take()
    const then = whole()
    cursor.lines()
    cursor.expect(':')
    return { kind: 'choice', at, test, then, otherwise: whole() }
  }
  const pair = (level: number): Expression => {
    const signs = levels[level]
    if (signs === undefined) return cursor.deeper(prefixed)
    let left = pair(level + 1)
    while (signs.some((sign) => cursor.is(sign))) {
      const at = cursor.take()
      cursor.lines()
      left = { kind: 'pair', at, sign: sameAs[at.value] ?? at.value, left, right: pair(level + 1) }
    }
    return left
  }
  const prefixed = (): Expression => {
    const at = cursor.next
    if (cursor.skip('!') || cursor.skip('not')) return { kind: 'not', at, of: cursor.deeper(prefixed) }
    if (cursor.skip('-')) return { kind: 'minus', at, of: cursor.deeper(prefixed) }
    return members(single())
  }
  const members = (start: Expression): Expression => {
    let made = start
    for (;;) {
      const at = cursor.next
      if (cursor.skip('.')) {
        const { value } = cursor.name('the name of a member')
        made = { kind: 'member', at, of: made, key: { kind: 'constant', at, value } }
      } else if (cursor.skip('[')) {
        const key = within(']')
        made = { kind: 'member', at, of: made, key }
      } else return made
    }
  }
  const within = (closing: string): Expression => {
    cursor.lines()
    const made = whole()
    cursor.lines()
    cursor.expect(closing)
    return made
  }
  const single = (): Expression => {
    const at = cursor.take()
    if (at.kind === 'number') return { kind: 'constant', at, value: Number(at.value) }
    if (at.kind === 'text') return { kind: 'constant', at, value: at.value }
    if (at.kind === 'name') return named(at)
    if (at.kind === 'sign' && at.value === '(') return within(')')
    if (at.kind === 'sign' && at.value === '[') return { kind: 'list', at, members: listed(']', whole) }
    if (at.kind === 'sign' && at.value === '{') return { kind: 'object', at, members: listed('}', keyed) }
    return cursor.fail(`Here a value is expected, and there is ${shown(at)}.`, at)
  }
  const named = (at: Token): Expression => {
    const value = constants.get(at.value)
    if (value !== undefined) return { kind: 'constant', at, value }
    if (reserved.has(at.value)) return cursor.fail(`Here a value is expected, and there is ${shown(at)}.`, at)
    if (cursor.is('(')) return called(at)
    used(at)
    return { kind: 'variable', at, name: at.value }
  }
  const called = (at: Token): Expression => {
    const known = workflowFunctions.get(at.value)
    if (known === undefined) {
      const near = didYouMean(at.value, workflowFunctions.keys())
      return cursor.fail(
        `There is no function ${JSON.stringify(at.value)}${near}; tools are called by run("namespace:name", {…}).`,
        at,
      )
    }
    cursor.take()
    const args = listed(')', whole)
    if (args.length < known.least || args.length > known.most) {
      const many = known.least === known.most ? `${known.least}` : `${known.least} to ${known.most}`
      return cursor.fail(`${at.value} takes ${many} arguments, and there are ${args.length}.`, at)
    }
    return { kind: 'call', at, name: at.value, args }
  }
  const keyed = (): Member => {
    const key = cursor.take()
    if (key.kind !== 'name' && key.kind !== 'text')
      cursor.fail(`Here a key is expected, and there is ${shown(key)}.`, key)
    cursor.lines()
    cursor.expect(':')
    cursor.lines()
    return { at: key, key: key.value, value: whole() }
  }
  const listed = <T>(closing: string, read: () => T): readonly T[] => {
    const made: T[] = []
    cursor.lines()
    while (!cursor.is(closing)) {
      made.push(read())
      cursor.lines()
      if (!cursor.skip(',')) break
      cursor.lines()
    }
    cursor.expect(closing)
    return made
  }
  const made = whole()
  checkDepth(made, cursor)
  return made
}

/** Each sign and member in a row is one level more of what is built; the engine takes three times as many. */
const deepest = 1_000

/** Refuses an expression that is too deep to be written, without going so deep itself. */
function checkDepth(whole: Expression, cursor: Cursor): void {
  const waiting: [Expression, number][] = [[whole, 1]]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [expression, depth] = next
    if (depth > deepest) {
      cursor.fail(
        `More than ${deepest} signs or members stand in a row; set a variable to a part of it.`,
        expression.at,
      )
    }
    for (const part of partsOf(expression)) waiting.push([part, depth + 1])
  }
}

function partsOf(made: Expression): readonly Expression[] {
  switch (made.kind) {
    case 'constant':
    case 'variable':
      return []
    case 'list':
      return made.members
    case 'object':
      return made.members.map(({ value }) => value)
    case 'member':
      return [made.of, made.key]
    case 'call':
      return made.args
    case 'not':
    case 'minus':
      return [made.of]
    case 'pair':
      return [made.left, made.right]
    case 'choice':
      return [made.test, made.then, made.otherwise]
  }
}
