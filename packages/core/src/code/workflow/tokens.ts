import { ToolError } from '@gantry/contract'
import { codeFrame } from '../failure.ts'

/** A position in the text, counted from 1. */
export interface SourcePosition {
  readonly line: number
  readonly column: number
}

type TokenKind = 'name' | 'number' | 'text' | 'sign' | 'line' | 'end'

export interface Token extends SourcePosition {
  readonly kind: TokenKind
  /** A text without its quotes and escapes; the source of any other token. */
  readonly value: string
}

/** Limits of the length and the number of tokens of a workflow. */
const mostCharacters = 262_144
const mostTokens = 65_536

const space = /[ \t\r\uFEFF]+/y
const comment = /(?:#|\/\/)[^\n]*/y
const word = /[A-Za-z_][A-Za-z0-9_]*/y
const number = /(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?/y
const text = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y
const sign = /:=|==|!=|<=|>=|&&|\|\||\?\?|[{}()[\],:.<>+\-*/%!;?=]/y

/** Splits a workflow into tokens, the last of them `end`. Throws CODE_INVALID at an invalid token. */
function tokensOf(source: string): readonly Token[] {
  if (source.length > mostCharacters) {
    throw wrong(source, { line: 1, column: 1 }, `A workflow has at most ${mostCharacters} characters.`)
  }
  const tokens: Token[] = []
  let at = 0
  let line = 1
  let start = 0
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    return pattern.exec(source)?.[0]
  }
  const push = (kind: TokenKind, value: string): void => {
    if (tokens.length >= mostTokens)
      throw wrong(source, place(), `A workflow has at most ${mostTokens} words and signs.`)
    tokens.push({ kind, value, ...place() })
  }
  const place = (): SourcePosition => ({ line, column: at - start + 1 })
  const readers: readonly (readonly [RegExp, (found: string) => void])[] = [
    [space, () => undefined],
    [comment, () => undefined],
    [word, (found) => push('name', found)],
    [number, (found) => push('number', numberOf(found, source, place()))],
    [text, (found) => push('text', textOf(found, source, place()))],
    [sign, (found) => push('sign', found)],
  ]
  while (at < source.length) {
    if (source[at] === '\n') {
      push('line', '\n')
      at += 1
      line += 1
      start = at
      continue
    }
    const found = readers.reduce<string | undefined>((done, [pattern, read]) => {
      if (done !== undefined) return done
      const next = match(pattern)
      if (next !== undefined) read(next)
      return next
    }, undefined)
    if (found === undefined) throw wrong(source, place(), unreadable(source, at))
    at += found.length
  }
  push('end', '')
  return tokens
}

function unreadable(source: string, at: number): string {
  const character = String.fromCodePoint(source.codePointAt(at) ?? 0)
  if (character === '"' || character === "'") return 'This text does not end on its line.'
  return `${JSON.stringify(character)} has no meaning in a workflow.`
}

function numberOf(written: string, source: string, place: SourcePosition): string {
  const value = Number(written)
  if (!Number.isFinite(value)) throw wrong(source, place, 'This number is too large.')
  return String(value)
}

/** The escapes of JSON, and `\'`. */
function textOf(written: string, source: string, place: SourcePosition): string {
  const inner = written.slice(1, -1).replace(/\\(.)|"/g, (found, next: string | undefined) => {
    if (next === undefined) return '\\"'
    return next === "'" ? "'" : found
  })
  try {
    return JSON.parse(`"${inner.replace(/\t/g, '\\t')}"`)
  } catch {
    throw wrong(
      source,
      place,
      'This text holds an escape or a character that is not allowed; escapes are those of JSON.',
    )
  }
}

/** The error for a fault in a workflow, with its position. */
function wrong(source: string, { line, column }: SourcePosition, message: string): ToolError {
  const frame = codeFrame(source, line, column)
  return new ToolError('CODE_INVALID', `Invalid workflow at line ${line}, column ${column}: ${message}`, {
    details: { line, column, ...(frame === undefined ? {} : { frame }) },
    effect: 'none',
  })
}

/** The maximum nesting, which bounds the recursion of the parser. */
const deepest = 128

/** A cursor over the tokens of a workflow. */
export interface Cursor {
  readonly next: Token
  /** Consumes the next token if it is this operator or word. */
  skip(value: string): boolean
  /** Consumes the next token, which must be this operator. */
  expect(value: string): Token
  take(): Token
  /** Whether the next token is an operator or word with this text. */
  is(value: string): boolean
  /** Skips ends of lines. */
  lines(): void
  /** The text of the next token that is not an end of a line. */
  peekOverLines(): string
  name(what: string): Token
  /** Parses one level deeper. */
  deeper<T>(read: () => T): T
  fail(message: string, at?: SourcePosition): never
}

export function createCursor(source: string): Cursor {
  const tokens = tokensOf(source)
  const end = tokens.at(-1) as Token
  let at = 0
  let depth = 0
  const cursor: Cursor = {
    get next() {
      return tokens[at] ?? end
    },
    is: (value) => cursor.next.value === value && (cursor.next.kind === 'sign' || cursor.next.kind === 'name'),
    take() {
      const token = cursor.next
      at += 1
      return token
    },
    skip(value) {
      const found = cursor.is(value)
      if (found) at += 1
      return found
    },
    expect(value) {
      if (!cursor.is(value))
        cursor.fail(`Here ${JSON.stringify(value)} is expected, and there is ${shown(cursor.next)}.`)
      return cursor.take()
    },
    lines() {
      while (cursor.next.kind === 'line') at += 1
    },
    peekOverLines() {
      let ahead = at
      while (tokens[ahead]?.kind === 'line') ahead += 1
      const { kind, value } = tokens[ahead] ?? end
      return kind === 'text' ? '' : value
    },
    name(what) {
      if (cursor.next.kind !== 'name') cursor.fail(`Here ${what} is expected, and there is ${shown(cursor.next)}.`)
      return cursor.take()
    },
    deeper(read) {
      depth += 1
      if (depth > deepest) cursor.fail(`This is nested more than ${deepest} deep.`)
      const made = read()
      depth -= 1
      return made
    },
    fail(message, place = cursor.next) {
      throw wrong(source, place, message)
    },
  }
  return cursor
}

/** The name of a token in messages. */
export function shown({ kind, value }: Token): string {
  if (kind === 'end') return 'the end'
  if (kind === 'line') return 'the end of the line'
  if (kind === 'text') return 'a text'
  return JSON.stringify(value)
}

/** An expression; `at` is the position reported for its failure. */
export type Expression = { readonly at: SourcePosition } & (
  | { readonly kind: 'constant'; readonly value: string | number | boolean | null }
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'list'; readonly members: readonly Expression[] }
  | { readonly kind: 'object'; readonly members: readonly Member[] }
  | { readonly kind: 'member'; readonly of: Expression; readonly key: Expression }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expression[] }
  | { readonly kind: 'not' | 'minus'; readonly of: Expression }
  | { readonly kind: 'pair'; readonly sign: string; readonly left: Expression; readonly right: Expression }
  | { readonly kind: 'choice'; readonly test: Expression; readonly then: Expression; readonly otherwise: Expression }
)

/** One member of an object. */
export interface Member {
  readonly at: SourcePosition
  readonly key: string
  readonly value: Expression
}

export type Block = readonly Statement[]

export type Statement = { readonly at: SourcePosition } & (
  | { readonly kind: 'set'; readonly name: string; readonly value: Expression }
  | { readonly kind: 'do'; readonly value: Expression }
  | { readonly kind: 'return'; readonly value: Expression | undefined }
  | { readonly kind: 'break' | 'continue'; readonly loop: number }
  | { readonly kind: 'if'; readonly test: Expression; readonly then: Block; readonly otherwise: Block }
  | { readonly kind: 'while'; readonly loop: number; readonly test: Expression; readonly body: Block }
  | {
      readonly kind: 'for'
      readonly loop: number
      readonly index: string | undefined
      readonly name: string
      readonly list: Expression
      readonly body: Block
    }
  | { readonly kind: 'retry'; readonly times: Expression; readonly delay: Expression | undefined; readonly body: Block }
  | { readonly kind: 'try'; readonly body: Block; readonly name: string | undefined; readonly caught: Block }
)

/** A parsed workflow. */
export interface Workflow {
  readonly body: Block
  /** Every variable that it sets. */
  readonly variables: ReadonlySet<string>
}
