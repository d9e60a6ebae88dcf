import { SourceMap, type SourceMapPayload, stripTypeScriptTypes } from 'node:module'

/** Thrown for TypeScript that does not parse; the message is for the program's author. */
export class TypeScriptError extends Error {
  /** Where, from 1 on, if the parser gave a place. */
  readonly place: Place | undefined

  constructor(message: string, place?: Place) {
    super(message)
    this.place = place
  }
}

/** Thrown when the parser itself fell; it is of no use in this thread any more. */
export class ParserFellError extends Error {
  override readonly name = 'SyntaxError'

  constructor(cause: unknown) {
    super('The code is nested too deeply for the parser of TypeScript.', { cause })
  }
}

/** A place in a text, from 1 on. */
export interface Place {
  readonly line: number
  readonly column: number
}

/**
 * Takes types away in place, or, where enums and namespaces must become code, makes JavaScript of the whole.
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

/** The parser says where only in its stack: the line's number first, then some lines of the text, one with marks under it. */
function placeIn(stack: string): Place | undefined {
  const [head = '', ...lines] = stack.split('\n')
  const line = Number(/:(\d+)$/.exec(head)?.[1])
  const marks = lines.find((text) => /^\s*\^+\s*$/.test(text))
  return Number.isInteger(line) && marks !== undefined ? { line, column: marks.indexOf('^') + 1 } : undefined
}

/** JavaScript that was made of TypeScript, and where a place in it was before. */
export interface Stripped {
  readonly text: string
  /** Absent when nothing moved. */
  readonly original?: (place: Place) => Place
}

/** Like `stripTypes`, with a map back to the original places. */
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
  const map = new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()) as SourceMapPayload)
  return {
    text: text.replace(mapMark, ''),
    original(place) {
      const entry = map.findEntry(place.line - 1, place.column - 1)
      return 'originalLine' in entry ? { line: entry.originalLine + 1, column: entry.originalColumn + 1 } : place
    },
  }
}

/** Where a text does not parse, for a parser that gives only the line. Throws ParserFellError. */
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
