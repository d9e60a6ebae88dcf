import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { clip } from '../ids/quote.ts'
import { didYouMean } from '../search/near.ts'
import { type Allowance, type ChainLimits, createAllowance } from './limits.ts'
import { describe, hasReference, type Reference, type Scope } from './reference.ts'
import { type Collector, compileTemplate, type Template, view } from './template.ts'

const operators = ['equals', 'notEquals', 'in', 'greaterThan', 'lessThan'] as const
type Operator = (typeof operators)[number]

/** A `when` with its references parsed. */
export type Check =
  | { readonly kind: 'truthy'; readonly template: Template }
  | { readonly kind: 'compare'; readonly operator: Operator; readonly left: Template; readonly right: Template }
  | { readonly kind: 'exists'; readonly reference: Reference }
  | { readonly kind: 'all' | 'any'; readonly checks: readonly Check[] }
  | { readonly kind: 'not'; readonly check: Check }

/** Compiles a condition. After an issue the returned check must not be used. */
export function compileCondition(when: Json, path: string, collector: Collector): Check {
  if (typeof when === 'string' || typeof when === 'boolean') {
    return { kind: 'truthy', template: compileTemplate(when, path, collector) }
  }
  if (!isObject(when)) {
    return wrong(path, collector, 'must be text, true, false or an object such as { value, equals }')
  }
  const keys = Object.keys(when)
  const [only] = keys
  if (keys.length === 1 && (only === 'all' || only === 'any'))
    return compileList(only, when[only] ?? null, path, collector)
  if (keys.length === 1 && only === 'not') {
    return { kind: 'not', check: compileCondition(when.not ?? null, `${path}/not`, collector) }
  }
  if (keys.length === 1 && only === 'exists') return compileExists(when.exists ?? null, `${path}/exists`, collector)
  const operator = operators.find((name) => Object.hasOwn(when, name))
  if (keys.length === 2 && operator !== undefined && Object.hasOwn(when, 'value')) {
    const left = compileTemplate(when.value ?? null, `${path}/value`, collector)
    const right = compileTemplate(when[operator] ?? null, `${path}/${operator}`, collector)
    return { kind: 'compare', operator, left, right }
  }
  return wrong(path, collector, shapeFault(keys))
}

/** Whether the step runs. One limit covers the evaluation of the whole condition, not each part. */
export function holds(check: Check, scope: Scope, limits: ChainLimits): boolean {
  return decide(check, scope, createAllowance('evaluationBytes', limits))
}

/** `all` and `any` stop early, so a later part may rely on an `exists` before it. */
function decide(check: Check, scope: Scope, allowance: Allowance): boolean {
  switch (check.kind) {
    case 'truthy':
      return Boolean(view(check.template, scope, allowance))
    case 'exists':
      return hasReference(check.reference, scope)
    case 'not':
      return !decide(check.check, scope, allowance)
    case 'all':
      return check.checks.every((part) => decide(part, scope, allowance))
    case 'any':
      return check.checks.some((part) => decide(part, scope, allowance))
    case 'compare':
      return compare(check.operator, view(check.left, scope, allowance), view(check.right, scope, allowance), allowance)
  }
}

function compare(operator: Operator, left: Json, right: Json, allowance: Allowance): boolean {
  if (operator === 'equals') return same(left, right, allowance)
  if (operator === 'notEquals') return !same(left, right, allowance)
  if (operator === 'in') {
    if (Array.isArray(right)) return right.some((item) => same(left, item, allowance))
    if (typeof right === 'string' && typeof left === 'string') return contains(right, left)
    throw incomparable(`"in" needs a list, or text in text; the right side ${describe(right)}`)
  }
  const ordered =
    (typeof left === 'number' && typeof right === 'number') || (typeof left === 'string' && typeof right === 'string')
  if (!ordered) {
    throw incomparable(
      `"${operator}" needs two numbers or two texts; the left ${describe(left)}, the right ${describe(right)}`,
    )
  }
  return operator === 'greaterThan' ? left > right : left < right
}

function incomparable(reason: string): ToolError {
  return new ToolError('CHAIN_INVALID', `The condition cannot be evaluated: ${reason}.`)
}

function compileList(kind: 'all' | 'any', parts: Json, path: string, collector: Collector): Check {
  if (!Array.isArray(parts)) return wrong(`${path}/${kind}`, collector, 'must be a list of conditions')
  return { kind, checks: parts.map((part, index) => compileCondition(part, `${path}/${kind}/${index}`, collector)) }
}

function compileExists(value: Json, path: string, collector: Collector): Check {
  const template = typeof value === 'string' ? compileTemplate(value, path, collector) : undefined
  if (template?.kind === 'reference') return { kind: 'exists', reference: template.reference }
  return wrong(path, collector, 'must be one reference, such as "{{prev.id}}"')
}

function shapeFault(keys: readonly string[]): string {
  const known = ['value', ...operators, 'exists', 'all', 'any', 'not']
  const stranger = keys.find((key) => !known.includes(key))
  if (stranger !== undefined) return `has the unknown key "${clip(stranger)}"${didYouMean(clip(stranger), known)}`
  return `must be one of { value, ${operators.join(' | ')} }, { exists }, { all }, { any }, { not }`
}

function wrong(path: string, collector: Collector, message: string): Check {
  collector.issue(path, message)
  return { kind: 'truthy', template: { kind: 'value', value: false } }
}

/** Whether two values are equal JSON, whatever the order of keys. Stops at the first difference. */
export function same(left: Json, right: Json, allowance: Allowance): boolean {
  allowance.spend(8)
  if (typeof left === 'string' && typeof right === 'string') {
    if (left.length !== right.length) return false
    allowance.spend(left.length)
    return left === right
  }
  if (left === right) return true
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
  if (!Array.isArray(left)) return !Array.isArray(right) && sameMembers(left, right, allowance)
  if (!Array.isArray(right) || left.length !== right.length) return false
  return left.every((item, index) => same(item, right[index] ?? null, allowance))
}

function sameMembers(left: JsonObject, right: JsonObject, allowance: Allowance): boolean {
  const keys = Object.keys(left)
  const others = Object.keys(right).length
  allowance.spend(8 * (keys.length + others))
  if (keys.length !== others) return false
  return keys.every((key) => Object.hasOwn(right, key) && same(left[key] ?? null, right[key] ?? null, allowance))
}

/** Up to this length `String.includes` is fast enough for any text. */
const shortPart = 256

/** Whether text contains a part. `String.includes` takes quadratic time for a long part that nearly matches everywhere. */
export function contains(text: string, part: string): boolean {
  if (part.length <= shortPart || part.length > text.length) return text.includes(part)
  const fallback = new Uint32Array(part.length)
  for (let at = 1, matched = 0; at < part.length; at++) {
    matched = extend(part, fallback, matched, part.charCodeAt(at))
    fallback[at] = matched
  }
  for (let at = 0, matched = 0; at < text.length; at++) {
    matched = extend(part, fallback, matched, text.charCodeAt(at))
    if (matched === part.length) return true
  }
  return false
}

/** One step of the Knuth-Morris-Pratt search: the matched length after one more character. */
function extend(part: string, fallback: Uint32Array, matched: number, unit: number): number {
  let length = matched
  while (length > 0 && part.charCodeAt(length) !== unit) length = fallback[length - 1] ?? 0
  return part.charCodeAt(length) === unit ? length + 1 : length
}
