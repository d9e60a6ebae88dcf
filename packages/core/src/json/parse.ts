import type { Issue, Json, JsonObject } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { defaultJsonLimits, JsonError, type JsonLimits, utf8Length } from './plain.ts'

interface Reader {
  readonly text: string
  at: number
  nodes: number
  readonly limits: JsonLimits
  readonly path: (string | number)[]
  readonly dropped: { count: number } | undefined
}

const literals: readonly (readonly [string, Json])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
]
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these inside a string
const stringToken = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const numberToken = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y

/**
 * Parses JSON text and refuses what `JSON.parse` would let through with a loss: repeated keys, numbers that a double
 * cannot hold, lone surrogates, `__proto__`, and nesting too deep to be written again.
 * Throws JsonError; the message of a syntax error names line and column. With `dropped`, members named `__proto__` are
 * dropped and counted there.
 */
export function parseJson(text: string, limits: JsonLimits = defaultJsonLimits, dropped?: { count: number }): Json {
  const reader: Reader = { text, at: 0, nodes: limits.nodes, limits, path: [], dropped }
  if (utf8Length(text) > limits.bytes) {
    throw new JsonError('too-large', '', `is longer than ${limits.bytes} bytes`)
  }
  const value = readValue(reader)
  skipSpace(reader)
  if (reader.at < text.length) throw syntax(reader, 'expected the end')
  return value
}

function readValue(reader: Reader): Json {
  skipSpace(reader)
  const character = reader.text[reader.at]
  if (character === '{') return readObject(reader)
  if (character === '[') return readArray(reader)
  if (character === '"') return readString(reader)
  for (const [word, value] of literals) {
    if (reader.text.startsWith(word, reader.at)) {
      reader.at += word.length
      return value
    }
  }
  return readNumber(reader)
}

function readObject(reader: Reader): Json {
  const target: JsonObject = {}
  descend(reader)
  if (closes(reader, '}')) return target
  while (true) {
    skipSpace(reader)
    if (reader.text[reader.at] !== '"') throw syntax(reader, 'expected a key in double quotes')
    const key = readString(reader)
    reader.path.push(key)
    const forbidden = key === '__proto__'
    if (forbidden && reader.dropped === undefined) {
      throw fault(reader, 'forbidden-key', 'is a key that is not allowed')
    }
    if (Object.hasOwn(target, key)) throw fault(reader, 'not-json', 'is a duplicate key')
    skipSpace(reader)
    expect(reader, ':')
    const value = readValue(reader)
    if (!forbidden) target[key] = value
    else if (reader.dropped !== undefined) reader.dropped.count += 1
    reader.path.pop()
    if (closes(reader, '}')) return target
    expect(reader, ',')
  }
}

function readArray(reader: Reader): Json {
  const target: Json[] = []
  descend(reader)
  if (closes(reader, ']')) return target
  while (true) {
    reader.path.push(target.length)
    target.push(readValue(reader))
    reader.path.pop()
    if (closes(reader, ']')) return target
    expect(reader, ',')
  }
}

function readString(reader: Reader): string {
  const token = match(reader, stringToken)
  if (token === undefined) throw syntax(reader, 'the string does not end or holds a character that must be escaped')
  const value: string = JSON.parse(token)
  if (!value.isWellFormed()) throw fault(reader, 'not-json', half)
  return value
}

function readNumber(reader: Reader): number {
  const start = reader.at
  const token = match(reader, numberToken)
  if (token === undefined) throw syntax(reader, 'expected a value')
  const value = Number(token)
  const lost = !Number.isFinite(value) || (/^-?[0-9]+$/.test(token) && !Number.isSafeInteger(value))
  if (!lost) return value
  reader.at = start
  throw fault(reader, 'not-json', `is ${token.slice(0, 40)}, a number that would lose digits; send it as a string`)
}

function match(reader: Reader, token: RegExp): string | undefined {
  token.lastIndex = reader.at
  const found = token.exec(reader.text)?.[0]
  if (found !== undefined) reader.at += found.length
  return found
}

/** Enters a list or object and checks the depth limit. */
function descend(reader: Reader): void {
  if (reader.path.length >= reader.limits.depth) {
    throw fault(reader, 'too-deep', `is nested deeper than ${reader.limits.depth} levels`)
  }
  reader.at++
}

function closes(reader: Reader, bracket: '}' | ']'): boolean {
  skipSpace(reader)
  if (--reader.nodes < 0) throw fault(reader, 'too-large', `has more than ${reader.limits.nodes} members`)
  if (reader.text[reader.at] !== bracket) return false
  reader.at++
  return true
}

function expect(reader: Reader, character: string): void {
  if (reader.text[reader.at] !== character) throw syntax(reader, `expected "${character}"`)
  reader.at++
}

function skipSpace(reader: Reader): void {
  while (true) {
    const unit = reader.text.charCodeAt(reader.at)
    if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return
    reader.at++
  }
}

function syntax(reader: Reader, expected: string): JsonError {
  const before = reader.text.slice(0, reader.at)
  const line = before.split('\n').length
  const column = reader.at - before.lastIndexOf('\n')
  const found = reader.at < reader.text.length ? `found ${JSON.stringify(reader.text[reader.at])}` : 'the text ends'
  return fault(reader, 'not-json', `${expected}, but ${found} at line ${line}, column ${column}`)
}

function fault(reader: Reader, kind: JsonError['fault'], message: string): JsonError {
  const path = reader.path.map((key) => `/${typeof key === 'number' ? key : escapeSegment(key)}`).join('')
  return new JsonError(kind, path, message)
}

/** A number with fewer digits fits into a double without loss. */
const manyDigits = /[0-9]{16}/

/**
 * Parses JSON from a backend: as lenient as `JSON.parse`, because the caller did not write it and cannot correct it, but
 * an integer that a double cannot hold is returned as a string, so that no digit is lost.
 * Throws SyntaxError, or RangeError for nesting beyond the stack. The result still goes through `copyJson`.
 */
export function parseAnswer(text: string): Json {
  return manyDigits.test(text) ? JSON.parse(text, keepDigits as Reviver) : JSON.parse(text)
}

type Reviver = (key: string, value: unknown) => unknown

function keepDigits(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || source === undefined) return value
  return /^-?[0-9]+$/.test(source) ? source : value
}

/** Deeper values fail the depth limit of `copyJson` anyway. */
const deepestSearched = 200
const half = 'holds half of a character pair'

/**
 * The first string or key of a JSON text with a lone surrogate. UTF-8 cannot encode it, so storing it would change it.
 * `value` is the parsed text; it is searched only when the text may hold a surrogate.
 */
export function loneSurrogateIn(text: string, value: Json): Issue | undefined {
  return text.isWellFormed() && !/\\ud/i.test(text) ? undefined : findHalf(value, 0)
}

function findHalf(value: Json, depth: number): Issue | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : { path: '', message: half }
  if (typeof value !== 'object' || value === null || depth >= deepestSearched) return undefined
  for (const [key, member] of Object.entries(value)) {
    if (!key.isWellFormed()) return { path: '', message: `has a key that ${half}` }
    const found = findHalf(member, depth + 1)
    if (found !== undefined) return { ...found, path: `/${escapeSegment(key)}${found.path}` }
  }
  return undefined
}
