import type { EffectClass, Identity, Isolation, Issue, Json, JsonObject, Tool } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { unescapeSegment } from '@gantry/json-schema/internal/pointer'
import { quote } from '../ids/quote.ts'
import { normalTag, readTexts, someText, textList } from '../ids/text-list.ts'
import { oneOrMoreMatcher } from '../ids/tool-pattern.ts'
import { canonicalJson } from '../json/canonical.ts'
import { unknownMembers } from '../options/options.ts'
import { isIsolation, isolations } from '../runtimes/runtime.ts'
import { didYouMean } from '../search/index.ts'
import type { Decision } from './policy.ts'

/** A compiled rule. */
export interface CompiledRule {
  readonly index: number
  readonly decision: Decision
  /** The only namespaces, in lower case, that the rule can match; absent when it can match any. */
  readonly namespaces: ReadonlySet<string> | undefined
  /** Whether the rule matches a tool; absent when it matches all tools. */
  readonly about: ((tool: Tool) => boolean) | undefined
  readonly tenants: ReadonlySet<string> | undefined
  readonly principals: Principals | undefined
  readonly roles: ReadonlySet<string> | undefined
  /** Whether the rule matches the arguments; absent when it has no condition on them. */
  readonly when: ((args: JsonObject) => boolean) | undefined
}

const verbs = ['allow', 'deny', 'ask', 'unavailable'] as const
type Verb = (typeof verbs)[number]

const ruleKeys: readonly string[] = [
  ...verbs,
  'to',
  'roles',
  'tenants',
  'effects',
  'tags',
  'when',
  'floor',
  'approvers',
  'reason',
  'name',
]

type GivenRule = { readonly [key: string]: unknown }

/**
 * Compiles one untrusted rule; reports everything that is invalid. It is not checked by `core/options`, because each of
 * its readers compiles what it checks in one pass, and a policy has up to 10,000 rules.
 * A condition that is present but undefined is refused too: it was meant to narrow the rule and would not.
 */
export function readRule(rule: unknown, index: number, issues: Issue[]): CompiledRule | undefined {
  const path = `/rules/${index}`
  if (!isObject(rule)) {
    issues.push({ path, message: 'must be a rule such as { allow: "namespace:*" }' })
    return undefined
  }
  const said: GivenRule = rule
  issues.push(...unknownMembers(said, ruleKeys, path, 'part of a rule'))
  const part = <T>(name: string, read: (value: unknown, path: string, issues: Issue[]) => T): T | undefined =>
    name in said ? read(said[name], `${path}/${name}`, issues) : undefined
  const whom = {
    tenants: part('tenants', textSet),
    principals: part('to', readPrincipals),
    roles: part('roles', textSet),
  }
  const [effects, tags, test] = [part('effects', effectSet), part('tags', tagSet), part('when', readWhen)]
  const grounds = { reason: part('reason', readText), name: part('name', readText) }
  const terms = { floor: part('floor', readFloor), approvers: part('approvers', textList) }
  const [verb, ...others] = verbs.filter((each) => said[each] !== undefined)
  if (verb === undefined || others.length > 0) {
    issues.push({ path, message: 'must have exactly one of allow, deny, ask and unavailable' })
    return undefined
  }
  issues.push(...termIssues(said, verb, path))
  const isNamed = oneOrMoreMatcher(said[verb], `${path}/${verb}`, issues)
  const every = isNamed.namespaces === undefined && effects === undefined && tags === undefined
  return {
    index,
    decision: decisionOf(verb, grounds.reason, grounds.name ?? path, terms),
    namespaces: isNamed.namespaces,
    about: every ? undefined : (tool) => isNamed(tool) && hasEffect(tool, effects) && hasTag(tool, tags),
    ...whom,
    when: test && holding(verb, test),
  }
}

/** Whether a rule matches a caller. */
export function isFor({ tenants, principals, roles }: CompiledRule, identity: Identity): boolean {
  if (tenants !== undefined && !tenants.has(identity.tenant)) return false
  if (principals !== undefined && !principals.has(identity.principal)) return false
  return roles === undefined || (identity.roles?.some((role) => roles.has(role)) ?? false)
}

/** When it is unknown whether the arguments match, an allow rule does not apply and every other rule does. */
function holding(verb: Verb, test: ArgsTest): (args: JsonObject) => boolean {
  return verb === 'allow' ? (args) => test(args) === true : (args) => test(args) !== false
}

interface Terms {
  readonly floor: Isolation | undefined
  readonly approvers: readonly string[] | undefined
}

function decisionOf(verb: Verb, reason: string | undefined, rule: string, { floor, approvers }: Terms): Decision {
  const granted = { rule, ...(floor === undefined ? {} : { floor }) }
  if (verb === 'deny') return { effect: 'deny', reason: reason ?? 'A rule denies it.', rule }
  if (verb === 'unavailable')
    return { effect: 'unavailable', reason: reason ?? 'A rule makes it unavailable for now.', rule }
  if (verb === 'allow') return { effect: 'allow', ...granted, ...(reason === undefined ? {} : { reason }) }
  const asked = approvers === undefined ? {} : { approvers }
  return { effect: 'ask', reason: reason ?? 'A rule asks for approval.', ...granted, ...asked }
}

/** Terms without a meaning for their verb are refused, because their author relies on them. */
function termIssues(said: GivenRule, verb: Verb, path: string): Issue[] {
  const issues: Issue[] = []
  if ('approvers' in said && verb !== 'ask') issues.push({ path: `${path}/approvers`, message: 'applies to ask only' })
  if ('floor' in said && (verb === 'deny' || verb === 'unavailable')) {
    issues.push({ path: `${path}/floor`, message: 'applies to allow and ask only' })
  }
  return issues
}

function readText(value: unknown, path: string, issues: Issue[]): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string') return someText(value, path, issues)
  issues.push({ path, message: 'must be a string' })
  return undefined
}

function readFloor(value: unknown, path: string, issues: Issue[]): Isolation | undefined {
  if (isIsolation(value)) return value
  issues.push({ path, message: `must be one of ${isolations.join(', ')}` })
  return undefined
}

function textSet(value: unknown, path: string, issues: Issue[]): ReadonlySet<string> {
  return new Set(textList(value, path, issues))
}

/** A catalog normalizes tags, so rules match them in any spelling. */
function tagSet(value: unknown, path: string, issues: Issue[]): ReadonlySet<string> {
  return new Set(textList(value, path, issues).map(normalTag))
}

function hasTag({ tags = [] }: Tool, wanted: ReadonlySet<string> | undefined): boolean {
  return wanted === undefined || tags.some((tag) => wanted.has(normalTag(tag)))
}

function hasEffect({ effect }: Tool, wanted: ReadonlySet<string> | undefined): boolean {
  return wanted === undefined || wanted.has(effect)
}

/** The type makes a new effect class of the contract a compile error until it is added here. */
const effectClasses: { readonly [Effect in EffectClass]: true } = {
  read: true,
  keyed: true,
  reconcilable: true,
  once: true,
  repeatable: true,
}
const effectNames = Object.keys(effectClasses)
const effectForm = `name at least one of ${effectNames.join(', ')}`

function effectSet(value: unknown, path: string, issues: Issue[]): ReadonlySet<string> {
  return new Set(readTexts(value, path, issues, effectForm, readEffect))
}

function readEffect(text: string, path: string, issues: Issue[]): string | undefined {
  if (effectNames.includes(text)) return text
  issues.push({ path, message: `${quote(text)} is not an effect class${didYouMean(text, effectNames)}; ${effectForm}` })
  return undefined
}

/** Principals of a rule: names of the host, so they are case-sensitive and may hold any character. */
interface Principals {
  /** Exact names. */
  readonly exact: ReadonlySet<string>
  /** Name prefixes. */
  readonly prefixes: readonly string[]
  has(principal: string): boolean
}

const form = 'name principals, such as `alice` or `svc-*`, or leave it out to mean everyone'

/** Reads one untrusted principal or a list of them; reports invalid ones. */
function readPrincipals(value: unknown, path: string, issues: Issue[]): Principals {
  const one = typeof value === 'string' ? someText(value, path, issues) : undefined
  const all = typeof value === 'string' ? [] : readTexts(value, path, issues, form, someText)
  const patterns = one === undefined ? all : [one]
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith('*')))
  const prefixes = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return {
    exact,
    prefixes,
    has: (principal) => exact.has(principal) || prefixes.some((prefix) => principal.startsWith(prefix)),
  }
}

/** Conditions on one value of the arguments; all of them must match. */
export interface ValueCondition {
  readonly is?: Json
  readonly not?: Json
  readonly in?: readonly Json[]
  readonly notIn?: readonly Json[]
  /** For numbers. */
  readonly above?: number
  readonly below?: number
  readonly atLeast?: number
  readonly atMost?: number
  /** For strings, case-sensitive. */
  readonly startsWith?: string
  readonly endsWith?: string
  readonly contains?: string
  /** Whether the value is present. */
  readonly exists?: boolean
}

/** Conditions by JSON Pointer into the arguments. */
export type When = { readonly [pointer: string]: ValueCondition }

/** Whether a condition matches a value; undefined when the value cannot be compared. */
type Test = (value: Json | undefined) => boolean | undefined

/** Whether the arguments match; undefined when that is unknown, and the verb of the rule decides. */
type ArgsTest = (args: JsonObject) => boolean | undefined

const mostConditions = 100

/** The operators: the type of the operand, and the test it compiles to. */
const operators: { readonly [name: string]: { readonly of: string; readonly test: (operand: Json) => Test } } = {
  is: { of: 'json', test: (wanted) => among([wanted]) },
  in: { of: 'list', test: (list) => among(elements(list)) },
  not: { of: 'json', test: (other) => notAmong([other]) },
  notIn: { of: 'list', test: (list) => notAmong(elements(list)) },
  above: { of: 'number', test: (bound) => numeric((value) => value > Number(bound)) },
  below: { of: 'number', test: (bound) => numeric((value) => value < Number(bound)) },
  atLeast: { of: 'number', test: (bound) => numeric((value) => value >= Number(bound)) },
  atMost: { of: 'number', test: (bound) => numeric((value) => value <= Number(bound)) },
  startsWith: { of: 'string', test: (part) => textual((value) => value.startsWith(String(part))) },
  endsWith: { of: 'string', test: (part) => textual((value) => value.endsWith(String(part))) },
  contains: { of: 'string', test: (part) => textual((value) => value.includes(String(part))) },
  exists: { of: 'boolean', test: (wanted) => (value) => (value !== undefined) === wanted },
}

function elements(operand: Json): readonly Json[] {
  return Array.isArray(operand) ? operand : []
}

const operatorNames = Object.keys(operators)

/**
 * Compiles the untrusted conditions of a rule into one test; reports everything that is invalid.
 *
 * The result is unknown for an absent or null value, because the tool may have a default, and for a value of the wrong
 * type, such as `above` for a string. An allow rule must then not apply and any other rule must apply, so that a caller
 * cannot evade a rule by omitting a value or sending another type. Only `exists`, and `is` or `in` for an explicit null,
 * are always known.
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
  issues.push(...unknownMembers(said, operatorNames, path, 'a condition'))
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

/** Three-valued AND: false when one test is false, otherwise undefined when one is undefined, otherwise true. */
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
    if (!Array.isArray(value)) value = value[segment]
    else if (/^(?:0|[1-9]\d*)$/.test(segment)) value = value[Number(segment)]
    else return undefined
  }
  return value
}

/** Unknown for a value whose type no element of the list has, and for an absent value or null. */
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
