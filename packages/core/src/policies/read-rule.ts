import type { EffectClass, Identity, Isolation, Issue, JsonObject, Tool } from '@gantry/contract'
import { quote } from '../ids/quote.ts'
import { normalTag, readTexts, someText, textList } from '../ids/text-list.ts'
import { oneOrMoreMatcher } from '../ids/tool-pattern.ts'
import { isIsolation, isolations } from '../runtimes/runtime.ts'
import { didYouMean, unknownKeys } from '../search/index.ts'
import { type ArgsTest, readWhen } from './condition.ts'
import type { Decision } from './policy.ts'

/** A rule made ready: everything that can be worked out once is. */
export interface CompiledRule {
  readonly index: number
  readonly decision: Decision
  /** Namespaces, in lower case, beyond which it is about nothing; absent when it may be about any. */
  readonly namespaces: ReadonlySet<string> | undefined
  /** Whether it is about a tool; absent when it is about all of them. */
  readonly about: ((tool: Tool) => boolean) | undefined
  readonly tenants: ReadonlySet<string> | undefined
  readonly principals: Principals | undefined
  readonly roles: ReadonlySet<string> | undefined
  /** Whether the arguments make it hold; absent when they do not matter. */
  readonly when: ((args: JsonObject) => boolean) | undefined
}

const verbs = ['allow', 'deny', 'ask', 'unavailable'] as const
type Verb = (typeof verbs)[number]

const ruleKeys: readonly string[] = [
  ...verbs,
  ...['to', 'roles', 'tenants', 'effects', 'tags', 'when', 'floor', 'approvers', 'reason', 'name'],
]

type Said = { readonly [key: string]: unknown }

/**
 * Reads one rule from outside; reports everything that is not understood.
 * A condition that is there but undefined is refused too: it was meant to narrow the rule, and would not.
 */
export function readRule(rule: unknown, index: number, issues: Issue[]): CompiledRule | undefined {
  const path = `/rules/${index}`
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) {
    issues.push({ path, message: 'must be a rule such as { allow: "namespace:*" }' })
    return undefined
  }
  const said = rule as Said
  issues.push(...unknownKeys(said, ruleKeys, path, 'is not part of a rule'))
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
  issues.push(...strayTerms(said, verb, path))
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

/** Whether a rule is about a caller. */
export function isFor({ tenants, principals, roles }: CompiledRule, identity: Identity): boolean {
  if (tenants !== undefined && !tenants.has(identity.tenant)) return false
  if (principals !== undefined && !principals.has(identity.principal)) return false
  return roles === undefined || (identity.roles?.some((role) => roles.has(role)) ?? false)
}

/** Where nobody can say whether the arguments fit, a rule that allows does not, and one that holds back does. */
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
  if (verb === 'unavailable') return { effect: 'unavailable', reason: reason ?? 'A rule holds it back for now.', rule }
  if (verb === 'allow') return { effect: 'allow', ...granted, ...(reason === undefined ? {} : { reason }) }
  const asked = approvers === undefined ? {} : { approvers }
  return { effect: 'ask', reason: reason ?? 'A rule asks for approval.', ...granted, ...asked }
}

/** Terms that say nothing beside their verb are refused, because somebody relied on them. */
function strayTerms(said: Said, verb: Verb, path: string): Issue[] {
  const strays: Issue[] = []
  if ('approvers' in said && verb !== 'ask') strays.push({ path: `${path}/approvers`, message: 'goes with ask' })
  if ('floor' in said && (verb === 'deny' || verb === 'unavailable')) {
    strays.push({ path: `${path}/floor`, message: 'goes with allow or ask' })
  }
  return strays
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

/** A catalog keeps tags in one spelling, so a deny by tag must hold in any. */
function tagSet(value: unknown, path: string, issues: Issue[]): ReadonlySet<string> {
  return new Set(textList(value, path, issues).map(normalTag))
}

function hasTag({ tags = [] }: Tool, wanted: ReadonlySet<string> | undefined): boolean {
  return wanted === undefined || tags.some((tag) => wanted.has(normalTag(tag)))
}

function hasEffect({ effect }: Tool, wanted: ReadonlySet<string> | undefined): boolean {
  return wanted === undefined || wanted.has(effect)
}

/** The type makes a new class of the contract appear here. */
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
  issues.push({ path, message: `${quote(text)} is no effect${didYouMean(text, effectNames)}; ${effectForm}` })
  return undefined
}

/** Principals that a rule is about: the host's own names, so their case matters and any character may be in them. */
interface Principals {
  /** Named whole. */
  readonly exact: ReadonlySet<string>
  /** Named by how they begin. */
  readonly prefixes: readonly string[]
  has(principal: string): boolean
}

const form = 'name principals, such as `alice` or `svc-*`, or leave it out to mean everyone'

/** Reads one principal or a list of them from outside; reports what is none. */
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
