import type { Json } from '@gantry/contract'
import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { Guest } from './guest.ts'
import type { Place } from './strip-types.ts'

/** Room to say what went wrong when all the memory is used up. */
const spareBytes = 1_048_576

/** As QuickJS says it. */
export const outOfMemory: ProgramFault = { kind: 'run', name: 'InternalError', message: 'out of memory' }
/** Of an error that keeps others from looking at it. */
const hidden: ProgramFault = { kind: 'run', name: 'Error', message: 'What was thrown cannot be read.' }

/** An error of the guest as its own code describes it, and so within its limits. */
export function faultOf(guest: Guest, error: QuickJSHandle, kind: ProgramFault['kind'] = 'run'): ProgramFault {
  return { ...toldBy(guest, () => guest.call('fault', error)), kind }
}

/** What a program failed with. */
export function lastFault(guest: Guest): ProgramFault {
  return toldBy(guest, () => guest.call('end'))
}

function toldBy({ context, allow, engine }: Guest, tell: () => ReturnType<Guest['call']>): ProgramFault {
  allow(spareBytes)
  const said = tell()
  const text = said.error === undefined && context.typeof(said.value) === 'string' ? context.getString(said.value) : ''
  return readFault(text) ?? (engine.refused ? outOfMemory : hidden)
}

/** Reads what a guest says of an error, all of which is the program's own word; undefined when it is none. */
function readFault(text: string): ProgramFault | undefined {
  const said = text === '' ? null : (JSON.parse(text) as Json)
  if (typeof said !== 'object' || said === null) return undefined
  const { name, message, line, column, stack, error } = said as { readonly [key: string]: Json }
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

/** A fault, and the places in its stack, where its author looks for them. */
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
 * QuickJS notes a place for calls and few other things, so an error may carry that of the last call before it. Its message
 * says what was looked for, which stands further on in the text; an error that the program made itself stands at or before
 * the place, because that is in its arguments. Where nothing is found the place stays.
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

/** How far around the place is looked; a patient attacker would else have the thread look for ever. */
const near = 4_000
const name = String.raw`[A-Za-z_$][\w$]*`
const absent = new RegExp(`^(${name}) is not (?:defined|initialized)$|^'(${name})' is read-only$`)
const property = new RegExp(`^cannot (?:read|set) property '(${name})' of (?:null|undefined)$`)
const noList = "cannot read property 'Symbol.iterator' of "
const noObject = 'Cannot convert undefined or null to object'

/** What stands where an error of this message comes from; undefined for messages that do not say. */
function wantedBy(message: string): RegExp | undefined {
  const [, unknown, constant] = absent.exec(message) ?? []
  const identifier = unknown ?? constant
  if (identifier !== undefined) return token(String.raw`(?<![\w$.])${escaped(identifier)}(?![\w$])`)
  const member = property.exec(message)?.[1]
  // A member is read after a dot, or taken apart in a pattern.
  if (member !== undefined)
    return token(
      String.raw`(?<=\.\s{0,20})${escaped(member)}(?![\w$])|(?<=[{,]\s{0,20})${escaped(member)}(?=[^(){}]*\}\s*=[^=>])`,
    )
  if (message.startsWith(noList)) return token(String.raw`(?<=\bof\s+)\S|(?<=\.\.\.)[\w$(\[]|\[(?=[^\[\]]*\]\s*=[^=>])`)
  if (message === noObject) return token(String.raw`\{(?=[^{}]*\}\s*=[^=>])`)
  return undefined
}

/** Where an error of this name was last made at or before a place, not far from it. */
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
 * A JavaScript or TypeScript text of the same length in which comments and what is inside of strings are blank, so that
 * what is found in it is code. Expressions inside of templates stay.
 */
export function maskSource(source: string): string {
  const out: string[] = []
  /** For each template whose expression is open, how many braces are open in it. */
  const templates: number[] = []
  let at = 0
  /** The last character of code, which tells a division from a pattern. */
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

/** Behind the first of these that is not escaped, or the end of the text. */
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
