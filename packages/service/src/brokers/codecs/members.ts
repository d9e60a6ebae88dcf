import { type Issue, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { nearest } from '@gantry/core/internal/search/near'

/** What a member of an envelope must be. */
interface MemberRule {
  is(value: Json): boolean
  readonly must: string
  readonly required?: boolean
}

export interface MemberRules {
  readonly [name: string]: MemberRule
}

const longestText = 200
/** Looking for a name that was meant takes time, and nobody reads more. */
const mostIssues = 20
/** Controls, and what some readers take for the end of a line. */
const unprintable = /[\p{Cc}\u2028\u2029]/gu

export const text: MemberRule = { is: isText, must: `must be a text of 1 to ${longestText} characters` }
export const number: MemberRule = { is: (value) => typeof value === 'number', must: 'must be a number' }
export const object: MemberRule = { is: isObject, must: 'must be an object' }
export const list: MemberRule = { is: Array.isArray, must: 'must be a list' }
export const anything: MemberRule = { is: () => true, must: '' }

export function required(rule: MemberRule): MemberRule {
  return { ...rule, required: true }
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= longestText
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Everything that is wrong with the members that have a rule. */
export function wrongMembers(value: JsonObject, rules: MemberRules): Issue[] {
  const issues: Issue[] = []
  for (const [name, rule] of Object.entries(rules)) {
    const member = value[name]
    if (member === undefined && rule.required) issues.push({ path: `/${name}`, message: 'is missing' })
    else if (member !== undefined && !rule.is(member)) issues.push({ path: `/${name}`, message: rule.must })
  }
  return issues
}

/** The members that have no rule, each with the name that was probably meant. */
export function unknownMembers(value: JsonObject, rules: MemberRules): Issue[] {
  const known = Object.keys(rules)
  const unknown = Object.keys(value).filter((name) => !Object.hasOwn(rules, name))
  return unknown.slice(0, mostIssues).map((name) => {
    const [near] = nearest(name.slice(0, 64), known, { limit: 1 })
    const hint = near === undefined ? '' : ` (did you mean "${near}"?)`
    const pointer = name.slice(0, 64).replaceAll('~', '~0').replaceAll('/', '~1')
    return { path: `/${printable(pointer)}`, message: `is not known here${hint}` }
  })
}

/** What Python leaves empty is not there. */
export function withoutBlanks(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== ''))
}

/** The refusal of a message; its text may go into a log as it is. */
export function invalidMessage(issues: readonly Issue[], cause?: unknown): ToolError {
  const said = issues.slice(0, mostIssues).map(({ path, message }) => `${path} ${message}`.trim())
  const why = cause === undefined ? {} : { cause }
  return new ToolError('PAYLOAD_INVALID', `The message cannot be taken: ${said.join('; ').slice(0, 2_000)}.`, {
    details: { issues: issues.slice(0, mostIssues) },
    ...why,
  })
}

export function printable(value: string): string {
  return value.replace(unprintable, '?').toWellFormed()
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/** Whether the bytes begin like a JSON object. */
export function looksLikeJsonObject(bytes: Uint8Array): boolean {
  return firstByte(bytes) === openBrace
}

/**
 * Whether one of the names is a member of the outermost object, so far as it can be told without reading the values: a
 * name somewhere in the arguments does not count. What is no JSON at all may get either answer.
 */
export function hasMember(bytes: Uint8Array, names: readonly string[]): boolean {
  if (!looksLikeJsonObject(bytes)) return false
  let depth = 0
  let atKey = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) {
      const end = endOfText(bytes, at)
      if (atKey && depth === 1 && names.includes(latin1(bytes.subarray(at + 1, end)))) return true
      at = end
    } else if (byte === openBrace || byte === openBracket) {
      depth += 1
      atKey = depth === 1
    } else if (byte === closeBrace || byte === closeBracket) depth -= 1
    else if (depth === 1 && byte === comma) atKey = true
    else if (depth === 1 && byte === colon) atKey = false
  }
  return false
}

function firstByte(bytes: Uint8Array): number | undefined {
  return bytes.find((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)
}

/** Where the quote stands that ends the text that begins here. */
function endOfText(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at
}

/** Only names of a few ASCII letters are looked for. */
function latin1(bytes: Uint8Array): string {
  return bytes.length > 64 ? '' : Buffer.from(bytes).toString('latin1')
}
