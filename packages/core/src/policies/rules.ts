import { type EffectClass, type Issue, ToolError } from '@gantry/contract'
import type { Decision, Policy, PolicyRequest } from './policy.ts'

/** Whom and what a rule is about; every condition that is there must hold. */
interface RuleScope {
  /** Principals, exact or with a trailing `*`. */
  readonly to?: string | readonly string[]
  readonly roles?: readonly string[]
  readonly tenants?: readonly string[]
  readonly effects?: readonly EffectClass[]
  readonly tags?: readonly string[]
  readonly reason?: string
}

type Patterns = string | readonly string[]

/** One rule: a verb, the tools it is about (`ns:name`, `ns:*`, `*`), and its scope. */
export type Rule = RuleScope &
  (
    | { readonly allow: Patterns; readonly deny?: never; readonly ask?: never }
    | { readonly deny: Patterns; readonly allow?: never; readonly ask?: never }
    | { readonly ask: Patterns; readonly allow?: never; readonly deny?: never }
  )

export interface RulesOptions {
  /** What happens to a call that no rule is about; `deny` unless said otherwise. */
  readonly default?: 'allow' | 'deny'
}

/** A policy from plain data. Order does not matter: any deny wins over any ask, any ask over any allow. */
export function rules(list: readonly Rule[], options: RulesOptions = {}): Policy {
  checkRules(list)
  const compiled = list.map(compile)
  const otherwise: Decision =
    options.default === 'allow' ? { effect: 'allow' } : { effect: 'deny', reason: 'No rule allows it.' }
  const decide = (request: RuleRequest): Decision => {
    let found: Decision | undefined
    for (const rule of compiled) {
      if (found !== undefined && rank[found.effect] >= rank[rule.decision.effect]) continue
      if (rule.matches(request)) found = rule.decision
    }
    return found ?? otherwise
  }
  return { decide, visible: (request) => decide(request).effect !== 'deny' }
}

type RuleRequest = Omit<PolicyRequest, 'args'>

const rank = { allow: 1, ask: 2, deny: 3, unavailable: 4 } as const

interface CompiledRule {
  readonly decision: Decision
  readonly matches: (request: RuleRequest) => boolean
}

function compile(rule: Rule): CompiledRule {
  const tools = listOf(rule.allow ?? rule.deny ?? rule.ask ?? [])
  const principals = rule.to === undefined ? undefined : listOf(rule.to)
  return {
    decision: decisionOf(rule),
    matches: ({ identity, id, tool }) =>
      tools.some((pattern) => matchesTool(pattern, id)) &&
      (principals === undefined || principals.some((pattern) => matchesPattern(pattern, identity.principal))) &&
      (rule.tenants === undefined || rule.tenants.includes(identity.tenant)) &&
      (rule.roles === undefined || rule.roles.some((role) => identity.roles?.includes(role))) &&
      (rule.effects === undefined || rule.effects.includes(tool.effect)) &&
      (rule.tags === undefined || rule.tags.some((tag) => tool.tags?.includes(tag))),
  }
}

const ruleKeys = new Set(['allow', 'deny', 'ask', 'to', 'roles', 'tenants', 'effects', 'tags', 'reason'])

/** A misspelt condition would widen a rule, so a rule that is not understood whole is refused. */
function checkRules(list: readonly Rule[]): void {
  const issues: Issue[] = []
  list.forEach((rule, index) => {
    for (const key of Object.keys(rule)) {
      if (!ruleKeys.has(key)) issues.push({ path: `/rules/${index}/${key}`, message: 'is not part of a rule' })
    }
    const verbs = [rule.allow, rule.deny, rule.ask].filter((verb) => verb !== undefined)
    if (verbs.length === 1) return
    issues.push({ path: `/rules/${index}`, message: 'must have exactly one of allow, deny and ask' })
  })
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `The policy is wrong: ${text}.`, { details: { issues } })
}

function decisionOf(rule: Rule): Decision {
  if (rule.deny !== undefined) return { effect: 'deny', reason: rule.reason ?? 'A rule denies it.' }
  if (rule.ask !== undefined) return { effect: 'ask', reason: rule.reason ?? 'A rule asks for approval.' }
  return rule.reason === undefined ? { effect: 'allow' } : { effect: 'allow', reason: rule.reason }
}

/** A pattern without a version is about every version. */
function matchesTool(pattern: string, id: string): boolean {
  return matchesPattern(pattern, id) || matchesPattern(pattern, id.slice(0, id.lastIndexOf(':')))
}

function matchesPattern(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : pattern === text
}

function listOf(patterns: Patterns): readonly string[] {
  return typeof patterns === 'string' ? [patterns] : patterns
}
