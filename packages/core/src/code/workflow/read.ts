import { didYouMean } from '../../search/near.ts'
import { type Cursor, createCursor, shown } from './cursor.ts'
import { readExpression, reserved } from './expression.ts'
import type { Block, Expression, Statement, Workflow } from './syntax.ts'
import type { Token } from './tokens.ts'

/** Reads a workflow. Throws CODE_INVALID with the place of what is wrong. */
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
  /** Loops around this place, the innermost last; each has a number of its own. */
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
  /** Whether a word goes on with the statement before, which it may do on the next line. */
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
    if (!continues('catch')) cursor.fail('Behind a try block stands "catch name { … }".')
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
