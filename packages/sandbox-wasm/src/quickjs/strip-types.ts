import { SourceMap, stripTypeScriptTypes } from 'node:module'

/** Thrown for TypeScript that does not parse; the message is for the program's author. */
export class TypeScriptError extends Error {
  /** The position, from 1, if the parser gave one. */
  readonly place: Place | undefined

  constructor(message: string, place?: Place) {
    super(message)
    this.place = place
  }
}

/** Thrown when the parser itself crashed; this thread cannot use it again. */
export class ParserFellError extends Error {
  override readonly name = 'SyntaxError'

  constructor(cause: unknown) {
    super('The code is nested too deeply for the parser of TypeScript.', { cause })
  }
}

/** A position in a text, from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

/**
 * Strips types in place or, when enums and namespaces need code, translates the whole text.
 * Throws TypeScriptError and ParserFellError.
 */
export function stripTypes(code: string): string {
  try {
    return stripTypeScriptTypes(code)
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw asSyntax(error)
  }
  try {
    return stripTypeScriptTypes(code, { mode: 'transform' })
  } catch (error) {
    throw asSyntax(error)
  }
}

function asSyntax(error: unknown): unknown {
  if (!(error instanceof Error) || !isSyntax(error)) return new ParserFellError(error)
  return new TypeScriptError(error.message, placeIn(String(error.stack)))
}

function isSyntax(error: unknown): boolean {
  return String(codeOf(error)).endsWith('_TYPESCRIPT_SYNTAX')
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** The parser reports positions only in its stack: the line number, then lines of the text, one with marks below it. */
function placeIn(stack: string): Place | undefined {
  const [head = '', ...lines] = stack.split('\n')
  const line = Number(/:(\d+)$/.exec(head)?.[1])
  const marks = lines.find((text) => /^\s*\^+\s*$/.test(text))
  return Number.isInteger(line) && marks !== undefined ? { line, column: marks.indexOf('^') + 1 } : undefined
}

/** JavaScript made from TypeScript, with a map to the original positions. */
export interface Stripped {
  readonly text: string
  /** Absent when no position changed. */
  readonly original?: (place: Place) => Place
}

/** Like `stripTypes`, with a map back to the original positions. */
export function stripTypesMapped(code: string): Stripped {
  try {
    return { text: stripTypeScriptTypes(code) }
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw asSyntax(error)
  }
  try {
    return mapped(stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true }))
  } catch (error) {
    throw asSyntax(error)
  }
}

const mapMark = /\n\/\/# sourceMappingURL=data:application\/json;base64,(\S+)\s*$/

function mapped(text: string): Stripped {
  const encoded = mapMark.exec(text)?.[1]
  if (encoded === undefined) return { text }
  const map = new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()))
  return {
    text: text.replace(mapMark, ''),
    original(place) {
      const entry = map.findEntry(place.line - 1, place.column - 1)
      return 'originalLine' in entry ? { line: entry.originalLine + 1, column: entry.originalColumn + 1 } : place
    },
  }
}

/** The position of a syntax error, for a parser that gives only the line. Throws ParserFellError. */
export function syntaxFault(code: string): { readonly message: string; readonly place: Place } | undefined {
  try {
    stripTypeScriptTypes(code)
  } catch (error) {
    if (!isSyntax(error)) throw new ParserFellError(error)
    const place =
      codeOf(error) === 'ERR_INVALID_TYPESCRIPT_SYNTAX' && error instanceof Error && placeIn(String(error.stack))
    if (place && error instanceof Error) return { message: error.message, place }
  }
  return undefined
}
