import type { Issue, Json, JsonObject } from '@gantry/contract'
import { unescapeSegment } from '@gantry/json-schema/internal/pointer'
import { canonicalJson } from '../json/canonical.ts'
import { isObject } from '../json/kinds.ts'
import { unknownKeys } from '../search/index.ts'

/** What must be true of one value among the arguments; all that is said must be. */
export interface ValueCondition {
  readonly is?: Json
  readonly not?: Json
  readonly in?: readonly Json[]
  readonly notIn?: readonly Json[]
  /** Of numbers. */
  readonly above?: number
  readonly below?: number
  readonly atLeast?: number
  readonly atMost?: number
  /** Of texts, letter for letter. */
  readonly startsWith?: string
  readonly endsWith?: string
  readonly contains?: string
  /** Whether there is a value at all. */
  readonly exists?: boolean
}

/** Conditions by JSON Pointer into the arguments. */
export type When = { readonly [pointer: string]: ValueCondition }

/** Whether a condition holds; undefined when it cannot be said of such a value. */
type Test = (value: Json | undefined) => boolean | undefined

/** Whether arguments fit; undefined when that cannot be said, which the verb of a rule then decides. */
export type ArgsTest = (args: JsonObject) => boolean | undefined

const mostConditions = 100

/** How each condition is read: what its operand must be, and the test that it makes. */
const operators: { readonly [name: string]: { readonly of: string; readonly test: (operand: Json) => Test } } = {
  is: { of: 'json', test: (wanted) => among([wanted]) },
  in: { of: 'list', test: (list) => among(list as readonly Json[]) },
  not: { of: 'json', test: (other) => notAmong([other]) },
  notIn: { of: 'list', test: (list) => notAmong(list as readonly Json[]) },
  above: { of: 'number', test: (bound) => numeric((value) => value > Number(bound)) },
  below: { of: 'number', test: (bound) => numeric((value) => value < Number(bound)) },
  atLeast: { of: 'number', test: (bound) => numeric((value) => value >= Number(bound)) },
  atMost: { of: 'number', test: (bound) => numeric((value) => value <= Number(bound)) },
  startsWith: { of: 'string', test: (part) => textual((value) => value.startsWith(String(part))) },
  endsWith: { of: 'string', test: (part) => textual((value) => value.endsWith(String(part))) },
  contains: { of: 'string', test: (part) => textual((value) => value.includes(String(part))) },
  exists: { of: 'boolean', test: (wanted) => (value) => (value !== undefined) === wanted },
}
const operatorNames = Object.keys(operators)

/**
 * Reads the conditions of a rule from outside into one test; reports everything that is not understood.
 *
 * Of a value that is not there, or is null, nobody can say what it will be, because the tool may have a default; nor of
 * one for which a condition makes no sense, such as `above` for a text. A rule that allows must then not allow, and one
 * that refuses must refuse, so that nobody gets around a rule by leaving a value out or sending it as something else.
 * Only `exists` can always be said, and `is` or `in` of a null that is written there.
 */
export function readWhen(value: unknown, path: string, issues: Issue[]): ArgsTest {
  if (!isObject(value) || Object.keys(value).length === 0) {
    issues.push({ path, message: 'must name values of the arguments, such as { "/amount": { "above": 100 } }' })
    return () => undefined
  }
  const entries = Object.entries(value)
  if (entries.length > mostConditions) issues.push({ path, message: `must not have more than ${mostConditions}` })
  const tests = entries.slice(0, mostConditions).map(([pointer, said]) => {
    const at = `${path}/${pointer.replaceAll('~', '~0').replaceAll('/', '~1')}`
    const segments = readPointer(pointer, at, issues)
    const test = readCondition(said, at, issues)
    return (args: JsonObject) => test(valueAt(args, segments))
  })
  return (args) => all(tests, args)
}

function readPointer(pointer: string, path: string, issues: Issue[]): readonly string[] {
  if (/^(?:\/(?:[^~/]|~[01])*)+$/.test(pointer)) return pointer.split('/').slice(1).map(unescapeSegment)
  issues.push({ path, message: 'must be a JSON Pointer into the arguments, such as "/amount" or "/to/0/address"' })
  return []
}

function readCondition(said: unknown, path: string, issues: Issue[]): Test {
  if (!isObject(said) || Object.keys(said).length === 0) {
    issues.push({ path, message: `must have at least one of ${operatorNames.join(', ')}` })
    return () => undefined
  }
  issues.push(...unknownKeys(said, operatorNames, path, 'is not a condition'))
  const tests = Object.entries(said).flatMap(([name, operand]) => {
    const operator = Object.hasOwn(operators, name) ? operators[name] : undefined
    if (operator === undefined) return []
    const fault = operandFault(operator.of, operand)
    if (fault !== undefined) issues.push({ path: `${path}/${name}`, message: fault })
    return fault === undefined ? [operator.test(operand as Json)] : []
  })
  return (value) => all(tests, value)
}

function operandFault(of: string, operand: unknown): string | undefined {
  if (of === 'json') return operand === undefined ? 'must be a JSON value' : undefined
  if (of === 'list') return Array.isArray(operand) && operand.length > 0 ? undefined : 'must be a list of JSON values'
  const fits = of === 'number' ? Number.isFinite(operand) : typeof operand === of && operand !== ''
  return fits ? undefined : `must be a ${of === 'string' ? 'text that is not empty' : of}`
}

/** False when one is; otherwise not known when one is not; else true. */
function all<T>(tests: readonly ((value: T) => boolean | undefined)[], value: T): boolean | undefined {
  let outcome: boolean | undefined = true
  for (const test of tests) {
    const holds = test(value)
    if (holds === false) return false
    if (holds === undefined) outcome = undefined
  }
  return outcome
}

function valueAt(args: JsonObject, segments: readonly string[]): Json | undefined {
  let value: Json | undefined = args
  for (const segment of segments) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, segment)) return undefined
    if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(segment)) return undefined
    value = (value as JsonObject)[segment]
  }
  return value
}

/** A value of a type that none of the list has cannot be compared with them; nothing at all, and null, cannot either. */
function among(list: readonly Json[]): Test {
  const kinds = new Set(list.map(kindOf))
  return (value) => {
    if (value === undefined) return undefined
    if (list.some((one) => equal(value, one))) return true
    const comparable = kinds.has(kindOf(value)) || (kinds.size === 1 && kinds.has('null'))
    return comparable ? false : undefined
  }
}

function notAmong(list: readonly Json[]): Test {
  const isAmong = among(list)
  return (value) => {
    const found = isAmong(value)
    return found === undefined ? undefined : !found
  }
}

function kindOf(value: Json): string {
  return value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value
}

function numeric(test: (value: number) => boolean): Test {
  return (value) => (typeof value === 'number' ? test(value) : undefined)
}

function textual(test: (value: string) => boolean): Test {
  return (value) => (typeof value === 'string' ? test(value) : undefined)
}

function equal(one: Json, other: Json): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  return canonicalJson(one) === canonicalJson(other)
}
