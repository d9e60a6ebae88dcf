import { type Issue, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { nearest } from '@gantry/core/internal/search/near'

/** The type that a member of an envelope must have. */
interface MemberRule {
  is(value: Json): boolean
  readonly must: string
  readonly required?: boolean
}

export interface MemberRules {
  readonly [name: string]: MemberRule
}

const longestText = 200
/** The search for similar names takes time, and longer lists do not help a reader. */
const mostIssues = 20
/** Control characters, and the separators that some readers treat as the end of a line. */
const unprintable = /[\p{Cc}\u2028\u2029]/gu

export const text: MemberRule = { is: isShortText, must: `must be a text of 1 to ${longestText} characters` }
export const number: MemberRule = { is: (value) => typeof value === 'number', must: 'must be a number' }
export const object: MemberRule = { is: isObject, must: 'must be an object' }
export const list: MemberRule = { is: Array.isArray, must: 'must be a list' }
export const anything: MemberRule = { is: () => true, must: '' }

export function required(rule: MemberRule): MemberRule {
  return { ...rule, required: true }
}

export function isShortText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= longestText
}

/** The members that are texts within the limit of `isShortText`. */
export function textMembers(value: { readonly [name: string]: unknown }): { [name: string]: string } {
  const texts: { [name: string]: string } = {}
  for (const [name, member] of Object.entries(value)) if (isShortText(member)) texts[name] = member
  return texts
}

/** The issues of the members that have a rule. */
export function wrongMembers(value: JsonObject, rules: MemberRules): Issue[] {
  const issues: Issue[] = []
  for (const [name, rule] of Object.entries(rules)) {
    const member = value[name]
    if (member === undefined && rule.required) issues.push({ path: `/${name}`, message: 'is missing' })
    else if (member !== undefined && !rule.is(member)) issues.push({ path: `/${name}`, message: rule.must })
  }
  return issues
}

/** The issues of members without a rule, each with the nearest known name. */
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

/** Removes empty members, which Python clients send in place of absent ones. */
export function withoutBlanks(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== ''))
}

/** The refusal of a message; its text is safe for a log. */
export function invalidMessage(issues: readonly Issue[], cause?: unknown): ToolError {
  const listed = issues.slice(0, mostIssues).map(({ path, message }) => `${path} ${message}`.trim())
  const why = cause === undefined ? {} : { cause }
  return new ToolError('PAYLOAD_INVALID', `The message is not valid: ${listed.join('; ').slice(0, 2_000)}.`, {
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
 * Whether one of the names is a member of the outermost object; a name within a value does not count. Values are not
 * parsed, so that the result for malformed JSON is undefined.
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

/** The index of the quote that ends the text. */
function endOfText(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at
}

/** Names are short and ASCII. */
function latin1(bytes: Uint8Array): string {
  return bytes.length > 64 ? '' : Buffer.from(bytes).toString('latin1')
}
