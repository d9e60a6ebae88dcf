import { ToolError } from '@gantry/contract'
import { codeFrame } from '../failure.ts'

/** Where something stands in the text, from 1 on. */
export interface SourcePosition {
  readonly line: number
  readonly column: number
}

type TokenKind = 'name' | 'number' | 'text' | 'sign' | 'line' | 'end'

export interface Token extends SourcePosition {
  readonly kind: TokenKind
  /** A text without its quotes and escapes; everything else as it is written. */
  readonly value: string
}

/** The longest program, and the most tokens in one. */
const mostCharacters = 262_144
const mostTokens = 65_536

const space = /[ \t\r\uFEFF]+/y
const comment = /(?:#|\/\/)[^\n]*/y
const word = /[A-Za-z_][A-Za-z0-9_]*/y
const number = /(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?/y
const text = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y
const sign = /:=|==|!=|<=|>=|&&|\|\||\?\?|[{}()[\],:.<>+\-*/%!;?=]/y

/** Cuts a workflow into tokens, the last of them `end`. Throws CODE_INVALID at what is none. */
export function tokensOf(source: string): readonly Token[] {
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
    return JSON.parse(`"${inner.replace(/\t/g, '\\t')}"`) as string
  } catch {
    throw wrong(
      source,
      place,
      'This text holds an escape or a character that is not allowed; escapes are those of JSON.',
    )
  }
}

/** What is wrong with a workflow, and where. */
export function wrong(source: string, { line, column }: SourcePosition, message: string): ToolError {
  const frame = codeFrame(source, line, column)
  return new ToolError('CODE_INVALID', `The workflow is wrong at line ${line}, column ${column}: ${message}`, {
    details: { line, column, ...(frame === undefined ? {} : { frame }) },
    effect: 'none',
  })
}
