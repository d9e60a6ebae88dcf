import { didYouMean } from '../../search/near.ts'
import { workflowFunctions } from './functions.ts'
import {
  type Block,
  type Cursor,
  createCursor,
  type Expression,
  type Member,
  type Statement,
  shown,
  type Token,
  type Workflow,
} from './tokens.ts'

/** Parses a workflow. Throws CODE_INVALID with the position of the fault. */
export function readWorkflow(source: string): Workflow {
  const cursor = createCursor(source)
  const reader = createReader(cursor)
  const body = reader.statements(() => cursor.next.kind === 'end')
  reader.checkNames()
  return { body, variables: reader.variables }
}

function createReader(cursor: Cursor) {
  const variables = new Set<string>()
  const used: Token[] = []
  /** The numbers of the enclosing loops, the innermost last. */
  const loops: number[] = []
  let counted = 0

  const expression = (): Expression => readExpression(cursor, (name) => used.push(name))
  const variable = (): string => {
    const token = cursor.name('the name of a variable')
    if (reserved.has(token.value))
      cursor.fail(`${shown(token)} is a word of the language and cannot be a variable.`, token)
    variables.add(token.value)
    return token.value
  }
  const block = (): Block => {
    cursor.lines()
    cursor.expect('{')
    const made = cursor.deeper(() => statements(() => cursor.is('}')))
    cursor.expect('}')
    return made
  }
  const loop = (read: (number: number) => Statement): Statement => {
    counted += 1
    loops.push(counted)
    const made = read(counted)
    loops.pop()
    return made
  }
  const statements = (ended: () => boolean): Block => {
    const made: Statement[] = []
    separators()
    while (!ended()) {
      if (atEnd()) cursor.fail('A block that was opened is not closed by "}".')
      made.push(statement())
      if (ended()) break
      if (!separators() && !atEnd()) {
        cursor.fail(`Here the statement should end, and there is ${shown(cursor.next)}.`)
      }
    }
    return made
  }
  const atEnd = (): boolean => cursor.next.kind === 'end'
  const separators = (): boolean => {
    let found = false
    while (cursor.next.kind === 'line' || cursor.is(';')) {
      cursor.take()
      found = true
    }
    return found
  }
  const statement = (): Statement => {
    const at = cursor.next
    const read = at.kind === 'name' ? readers.get(at.value) : undefined
    if (read === undefined) return plain(at)
    cursor.take()
    return read(at)
  }
  const plain = (at: Token): Statement => {
    const value = expression()
    if (cursor.is('=')) cursor.fail('A variable is set by ":=", and compared by "==".')
    if (!cursor.skip(':=')) return { kind: 'do', at, value }
    if (value.kind !== 'variable') return cursor.fail('Only a variable can be set.', at)
    used.pop()
    variables.add(value.name)
    cursor.lines()
    return { kind: 'set', at, name: value.name, value: expression() }
  }
  const conditional = (at: Token): Statement => {
    const test = expression()
    const then = block()
    return { kind: 'if', at, test, then, otherwise: otherwise() }
  }
  const otherwise = (): Block => {
    if (!continues('else')) return []
    const at = cursor.next
    return cursor.skip('if') ? [cursor.deeper(() => conditional(at))] : block()
  }
  /** Whether a word continues the previous statement, possibly on the next line. */
  const continues = (word: string): boolean => {
    if (cursor.peekOverLines() !== word) return false
    cursor.lines()
    return cursor.skip(word)
  }
  const each = (at: Token): Statement => {
    const first = variable()
    const second = cursor.skip(',') ? variable() : undefined
    cursor.expect('in')
    const list = expression()
    const [index, name] = second === undefined ? [undefined, first] : [first, second]
    return loop((number) => ({ kind: 'for', at, loop: number, index, name, list, body: block() }))
  }
  const repeated = (at: Token): Statement => {
    cursor.expect('(')
    const times = expression()
    const delay = cursor.skip(',') ? expression() : undefined
    cursor.expect(')')
    return { kind: 'retry', at, times, delay, body: block() }
  }
  const tried = (at: Token): Statement => {
    const body = block()
    if (!continues('catch')) cursor.fail('A try block is followed by "catch name { … }".')
    const name = cursor.next.kind === 'name' ? variable() : undefined
    return { kind: 'try', at, body, name, caught: block() }
  }
  const returned = (at: Token): Statement => {
    const empty = cursor.next.kind === 'line' || cursor.next.kind === 'end' || cursor.is('}') || cursor.is(';')
    return { kind: 'return', at, value: empty ? undefined : expression() }
  }
  const leave =
    (kind: 'break' | 'continue') =>
    (at: Token): Statement => {
      const inner = loops.at(-1)
      if (inner === undefined) return cursor.fail(`There is no loop around this ${kind}.`, at)
      return { kind, at, loop: inner }
    }
  const readers: ReadonlyMap<string, (at: Token) => Statement> = new Map([
    ['if', conditional],
    ['for', each],
    ['while', (at) => loop((number) => ({ kind: 'while', at, loop: number, test: expression(), body: block() }))],
    ['retry', repeated],
    ['try', tried],
    ['return', returned],
    ['break', leave('break')],
    ['continue', leave('continue')],
  ])
  const checkNames = (): void => {
    for (const name of used) {
      if (variables.has(name.value)) continue
      const near = didYouMean(name.value, variables)
      cursor.fail(`There is no variable ${shown(name)}${near}; one is set by ${name.value} := ….`, name)
    }
  }
  return { statements, checkNames, variables }
}

/** Operators by precedence, the lowest first; words are aliases for operators. */
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

/** Reserved words. */
const reserved: ReadonlySet<string> = new Set([
  ...constants.keys(),
  'if',
  'else',
  'for',
  'in',
  'while',
  'retry',
  'try',
  'catch',
  'return',
  'break',
  'continue',
  'and',
  'or',
  'not',
])

/** Parses an expression of limited depth; `used` is called with each variable in it. */
function readExpression(cursor: Cursor, used: (name: Token) => void): Expression {
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

/** Each operator and member in a row adds one level to the translation. The engine supports three times as many. */
const deepest = 1_000

/** Refuses an expression that is too deep to translate, without recursion. */
function checkDepth(whole: Expression, cursor: Cursor): void {
  const waiting: [Expression, number][] = [[whole, 1]]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [expression, depth] = next
    if (depth > deepest) {
      cursor.fail(
        `More than ${deepest} operators or members in a row; assign a part of it to a variable.`,
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
