import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import { maskSource } from './mask-source.ts'

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

/** What stands where an error of this message comes from; undefined for messages that do not tell. */
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
