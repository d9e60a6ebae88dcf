import type { EffectClass, Issue } from '@gantry/contract'
import { quote } from '../ids/quote.ts'
import { normalTag } from '../ids/tag.ts'
import { readTexts, someText, textList } from '../ids/text-list.ts'
import { oneOrMoreMatcher } from '../ids/tool-pattern.ts'
import { didYouMean, unknownKeys } from '../search/index.ts'
import type { Decision, PolicyRequest } from './policy.ts'

/** What a rule looks at: a decision on whether a tool is shown has no arguments yet. */
export type RuleRequest = Omit<PolicyRequest, 'args'>

type Condition = (request: RuleRequest) => boolean

/** A rule made ready: everything that can be worked out once is. */
export interface CompiledRule {
  readonly decision: Decision
  readonly matches: Condition
}

const verbs = ['allow', 'deny', 'ask'] as const

/** How each condition is read; each gives the test that a request must pass. */
const conditions: { readonly [name: string]: (value: unknown, path: string, issues: Issue[]) => Condition } = {
  to: readPrincipals,
  roles(value, path, issues) {
    const roles = new Set(textList(value, path, issues))
    return ({ identity }) => identity.roles?.some((role) => roles.has(role)) ?? false
  },
  tenants(value, path, issues) {
    const tenants = new Set(textList(value, path, issues))
    return ({ identity }) => tenants.has(identity.tenant)
  },
  effects(value, path, issues) {
    const effects = new Set(readTexts(value, path, issues, effectForm, readEffect))
    return ({ tool }) => effects.has(tool.effect)
  },
  // A catalog keeps tags in one spelling, so a deny by tag must hold in any.
  tags(value, path, issues) {
    const tags = new Set(textList(value, path, issues).map(normalTag))
    return ({ tool }) => tool.tags?.some((tag) => tags.has(normalTag(tag))) ?? false
  },
}

const ruleKeys: readonly string[] = [...verbs, ...Object.keys(conditions), 'reason']

/**
 * Reads one rule from outside; reports everything that is not understood.
 * A condition that is there but undefined is refused too: it was meant to narrow the rule, and would not.
 */
export function readRule(rule: unknown, path: string, issues: Issue[]): CompiledRule | undefined {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) {
    issues.push({ path, message: 'must be a rule such as { allow: "namespace:*" }' })
    return undefined
  }
  const said = rule as { readonly [key: string]: unknown }
  issues.push(...unknownKeys(said, ruleKeys, path, 'is not part of a rule'))
  const scope = Object.entries(conditions).flatMap(([name, read]) =>
    name in said ? [read(said[name], `${path}/${name}`, issues)] : [],
  )
  const reason = readReason(said.reason, `${path}/reason`, issues)
  const [verb, ...others] = verbs.filter((each) => said[each] !== undefined)
  if (verb === undefined || others.length > 0) {
    issues.push({ path, message: 'must have exactly one of allow, deny and ask' })
    return undefined
  }
  const isAbout = oneOrMoreMatcher(said[verb], `${path}/${verb}`, issues)
  return {
    decision: decisionOf(verb, reason),
    matches: (request) => isAbout(request.tool) && scope.every((condition) => condition(request)),
  }
}

function decisionOf(verb: (typeof verbs)[number], reason: string | undefined): Decision {
  if (verb === 'deny') return { effect: 'deny', reason: reason ?? 'A rule denies it.' }
  if (verb === 'ask') return { effect: 'ask', reason: reason ?? 'A rule asks for approval.' }
  return reason === undefined ? { effect: 'allow' } : { effect: 'allow', reason }
}

function readReason(value: unknown, path: string, issues: Issue[]): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string') return someText(value, path, issues)
  issues.push({ path, message: 'must be a string' })
  return undefined
}

/** Principals are the host's own names, so their case matters and any character may be in them. */
function readPrincipals(value: unknown, path: string, issues: Issue[]): Condition {
  const one = typeof value === 'string' ? someText(value, path, issues) : undefined
  const all = typeof value === 'string' ? [] : readTexts(value, path, issues, principalForm, someText)
  const patterns = one === undefined ? all : [one]
  return ({ identity: { principal } }) =>
    patterns.some((pattern) =>
      pattern.endsWith('*') ? principal.startsWith(pattern.slice(0, -1)) : pattern === principal,
    )
}

const principalForm = 'name principals, such as `alice` or `svc-*`, or leave it out to mean everyone'

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

function readEffect(text: string, path: string, issues: Issue[]): string | undefined {
  if (effectNames.includes(text)) return text
  issues.push({ path, message: `${quote(text)} is no effect${didYouMean(text, effectNames)}; ${effectForm}` })
  return undefined
}
