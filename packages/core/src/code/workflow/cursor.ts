import { type SourcePosition, type Token, tokensOf, wrong } from './tokens.ts'

/** Deeper ones are refused, so that reading one cannot end in too much recursion. */
const deepest = 128

/** Walks over the tokens of a workflow. */
export interface Cursor {
  readonly next: Token
  /** Takes the next token when it is this sign or word. */
  skip(value: string): boolean
  /** Takes the next token, which must be this sign. */
  expect(value: string): Token
  take(): Token
  /** Whether the next token is a sign or word with this text. */
  is(value: string): boolean
  /** Passes over ends of lines. */
  lines(): void
  /** The text of the next token that is no end of a line. */
  peekOverLines(): string
  name(what: string): Token
  /** Reads something one level deeper. */
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

/** A token as a message names it. */
export function shown({ kind, value }: Token): string {
  if (kind === 'end') return 'the end'
  if (kind === 'line') return 'the end of the line'
  if (kind === 'text') return 'a text'
  return JSON.stringify(value)
}
