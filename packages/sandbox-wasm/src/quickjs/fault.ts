import type { Json } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { Guest } from './guest.ts'
import type { Place } from './strip-types.ts'

/** Memory reserve for describing an error when all memory is used. */
const spareBytes = 1_048_576

/** The message of QuickJS. */
export const outOfMemory: ProgramFault = { kind: 'run', name: 'InternalError', message: 'out of memory' }
/** The fault of an error that throws when it is inspected. */
const hidden: ProgramFault = { kind: 'run', name: 'Error', message: 'The thrown value cannot be inspected.' }

/** Describes a guest error with the guest's own code, and so within its limits. */
export function faultOf(guest: Guest, error: QuickJSHandle, kind: ProgramFault['kind'] = 'run'): ProgramFault {
  return { ...describedBy(guest, () => guest.call('fault', error)), kind }
}

/** The fault of a program. */
export function lastFault(guest: Guest): ProgramFault {
  return describedBy(guest, () => guest.call('end'))
}

function describedBy({ context, allow, engine }: Guest, report: () => ReturnType<Guest['call']>): ProgramFault {
  allow(spareBytes)
  const said = report()
  const text = said.error === undefined && context.typeof(said.value) === 'string' ? context.getString(said.value) : ''
  return readFault(text) ?? (engine.refused ? outOfMemory : hidden)
}

/** Parses the guest's description of an error, which is untrusted; undefined when it is invalid. */
function readFault(text: string): ProgramFault | undefined {
  const said: Json = text === '' ? null : JSON.parse(text)
  if (!isObject(said)) return undefined
  const { name, message, line, column, stack, error } = said
  if (typeof name !== 'string' || typeof message !== 'string') return undefined
  return {
    kind: 'run',
    name,
    message,
    ...(isPlace(line) ? { line } : {}),
    ...(isPlace(column) ? { column } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

function isPlace(value: Json | undefined): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1
}

/** Maps the positions of a fault and its stack to the author's source. */
export function placed(fault: ProgramFault, places: ((place: Place) => Place) | undefined): ProgramFault {
  if (places === undefined || fault.kind === 'compile') return fault
  const { line, column, stack, ...rest } = fault
  return {
    ...rest,
    ...(line === undefined ? {} : places({ line, column: column ?? 1 })),
    ...(stack === undefined
      ? {}
      : { stack: stack.replace(mainPlace, (_, at, to) => mainText(places({ line: Number(at), column: Number(to) }))) }),
  }
}

const mainPlace = /\bmain\.js:(\d+):(\d+)/g

function mainText({ line, column }: Place): string {
  return `main.js:${line}:${column}`
}

/**
 * QuickJS records positions for calls and little else, so an error may carry the position of the call before it. Its
 * message names what was accessed, which stands later in the text; an error that the program constructed stands at or before
 * the position, which is inside its arguments. Without a match the position is unchanged.
 */
export function sharpened(fault: ProgramFault, source: string): ProgramFault {
  const { line, column = 1 } = fault
  if (line === undefined || fault.kind !== 'run') return fault
  const text = maskSource(source)
  const from = offsetOf(text, line, column)
  const wanted = wantedBy(fault.message)
  const at =
    wanted === undefined
      ? madeBefore(text, fault.name, from)
      : (search(text, wanted, from) ?? search(text, wanted, Math.max(0, from - near)))
  return at === undefined ? fault : { ...fault, ...placeOf(text, at) }
}

/** Search distance around the position, so that a hostile program cannot keep the thread busy. */
const near = 4_000
const name = String.raw`[A-Za-z_$][\w$]*`
const absent = new RegExp(`^(${name}) is not (?:defined|initialized)$|^'(${name})' is read-only$`)
const property = new RegExp(`^cannot (?:read|set) property '(${name})' of (?:null|undefined)$`)
const noList = "cannot read property 'Symbol.iterator' of "
const noObject = 'Cannot convert undefined or null to object'

/** A pattern for the source of an error with this message; undefined for messages that name nothing. */
function wantedBy(message: string): RegExp | undefined {
  const [, unknown, constant] = absent.exec(message) ?? []
  const identifier = unknown ?? constant
  if (identifier !== undefined) return token(String.raw`(?<![\w$.])${escaped(identifier)}(?![\w$])`)
  const member = property.exec(message)?.[1]
  // A member is read after a dot, or destructured.
  if (member !== undefined)
    return token(
      String.raw`(?<=\.\s{0,20})${escaped(member)}(?![\w$])|(?<=[{,]\s{0,20})${escaped(member)}(?=[^(){}]*\}\s*=[^=>])`,
    )
  if (message.startsWith(noList)) return token(String.raw`(?<=\bof\s+)\S|(?<=\.\.\.)[\w$(\[]|\[(?=[^\[\]]*\]\s*=[^=>])`)
  if (message === noObject) return token(String.raw`\{(?=[^{}]*\}\s*=[^=>])`)
  return undefined
}

/** The last construction of an error of this name shortly before a position. */
function madeBefore(text: string, errorName: string, from: number): number | undefined {
  if (!new RegExp(`^${name}$`).test(errorName)) return undefined
  const start = Math.max(0, from - near)
  const around = text.slice(start, from + errorName.length + 2)
  const made = [...around.matchAll(token(String.raw`\bnew\s+${escaped(errorName)}\b`))]
  const last = made.findLast(({ index }) => start + index <= from)
  return last === undefined ? undefined : start + last.index
}

function token(source: string): RegExp {
  return new RegExp(source, 'g')
}

function escaped(identifier: string): string {
  return identifier.replaceAll('$', String.raw`\$`)
}

function search(text: string, wanted: RegExp, from: number): number | undefined {
  const start = Math.max(0, from - 1)
  const part = text.slice(start, from + near)
  wanted.lastIndex = from - start
  const found = wanted.exec(part)
  return found === null ? undefined : start + found.index
}

function offsetOf(text: string, line: number, column: number): number {
  let start = 0
  for (let number = 1; number < line; number += 1) {
    const end = text.indexOf('\n', start)
    if (end < 0) return text.length
    start = end + 1
  }
  return start + column - 1
}

function placeOf(text: string, offset: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, offset)
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') }
}

/**
 * A copy of JavaScript or TypeScript source with comments and string contents blanked, so that matches are code.
 * Expressions inside of templates are kept.
 */
export function maskSource(source: string): string {
  const out: string[] = []
  /** For each open template expression, the number of open braces in it. */
  const templates: number[] = []
  let at = 0
  /** The last character of code, which distinguishes a division from a regular expression. */
  let last = '('
  const blank = (end: number, seems: string): void => {
    out.push(source.slice(at, end).replace(/[^\n]/g, ' '))
    at = end
    last = seems
  }
  const template = (): void => {
    const end = endOf(source, at + 1, '`', '${')
    const opens = source.startsWith('${', end - 2)
    blank(end, opens ? '(' : 'x')
    if (opens) templates.push(0)
  }
  while (at < source.length) {
    const character = source[at] ?? ''
    if (source.startsWith('//', at)) blank(endOf(source, at, '\n'), last)
    else if (source.startsWith('/*', at)) blank(endOf(source, at + 2, '*/'), last)
    else if (character === '"' || character === "'") blank(endOf(source, at + 1, character, '\n'), 'x')
    else if (character === '`') template()
    else if (character === '}' && templates.at(-1) === 0) {
      templates.pop()
      template()
    } else if (character === '/' && '(,=:[!&|?{};+-*%<>~^'.includes(last)) blank(endOf(source, at + 1, '/', '\n'), 'x')
    else {
      const depth = templates.length - 1
      const braces = character === '{' ? 1 : character === '}' ? -1 : 0
      if (depth >= 0) templates[depth] = (templates[depth] ?? 0) + braces
      if (character.trim() !== '') last = character
      out.push(character)
      at += 1
    }
  }
  return out.join('')
}

/** The index after the first unescaped terminator, or the end of the text. */
function endOf(source: string, from: number, ...ends: readonly string[]): number {
  for (let at = from; at < source.length; at += 1) {
    if (source[at] === '\\') at += 1
    else {
      const end = ends.find((each) => source.startsWith(each, at))
      if (end !== undefined) return at + end.length
    }
  }
  return source.length
}
