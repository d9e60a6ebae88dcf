import { type EffectClass, type Issue, ToolError } from '@gantry/contract'
import { unknownKeys } from '../search/index.ts'
import type { Decision, Policy } from './policy.ts'
import { type CompiledRule, type RuleRequest, readRule } from './read-rule.ts'

/** Whom and what a rule is about; every condition that is there must hold. */
interface RuleScope {
  /** Principals, exact or with a trailing `*`. */
  readonly to?: string | readonly string[]
  readonly roles?: readonly string[]
  readonly tenants?: readonly string[]
  readonly effects?: readonly EffectClass[]
  /** A tool needs one of them. */
  readonly tags?: readonly string[]
  readonly reason?: string | undefined
}

type Patterns = string | readonly string[]

/** One rule: a verb, the tools it is about (`*`, `ns:*`, `ns:prefix*`, `ns:name`, `ns:name:1.0.0`), and its scope. */
export type Rule = RuleScope &
  (
    | { readonly allow: Patterns; readonly deny?: never; readonly ask?: never }
    | { readonly deny: Patterns; readonly allow?: never; readonly ask?: never }
    | { readonly ask: Patterns; readonly allow?: never; readonly deny?: never }
  )

export interface RulesOptions {
  /** What happens to a call that no rule is about; `deny` unless said otherwise. */
  readonly default?: 'allow' | 'deny' | undefined
}

/**
 * A policy from plain data. Order does not matter: any deny wins over any ask, any ask over any allow.
 * Throws CONFIG_INVALID with every failing path.
 */
export function rules(list: readonly Rule[], options: RulesOptions = {}): Policy {
  const compiled = readAll(list, options)
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

const rank = { allow: 1, ask: 2, deny: 3, unavailable: 4 } as const

/** A misspelt condition would widen a rule, so rules that are not understood whole are refused. */
function readAll(list: unknown, options: RulesOptions): readonly CompiledRule[] {
  const issues: Issue[] = []
  if (!Array.isArray(list)) issues.push({ path: '/rules', message: 'must be a list of rules' })
  const read = Array.from(Array.isArray(list) ? list : [], (rule: unknown, index) =>
    readRule(rule, `/rules/${index}`, issues),
  )
  if (!['allow', 'deny', undefined].includes(options.default)) {
    issues.push({ path: '/default', message: 'must be allow or deny' })
  }
  issues.push(...unknownKeys(options, ['default'], '', 'is not an option of rules'))
  if (issues.length === 0) return read.filter((rule) => rule !== undefined)
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `The policy is wrong: ${text}.`, { details: { issues } })
}
