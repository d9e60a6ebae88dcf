import type { EffectClass, Identity, Isolation, Issue, Tool } from '@gantry/contract'
import { oneOf } from '../options/option.ts'
import { optionsCheck, refuse } from '../options/options.ts'
import { type Decision, type Policy, type PolicyRequest, rankOf, strictest } from './policy.ts'
import { type CompiledRule, isFor, readRule, type When } from './read-rule.ts'

/** The scope of a rule; every condition that is present must match. */
interface RuleScope {
  /** Principals, exact or with a trailing `*`. */
  readonly to?: string | readonly string[]
  readonly roles?: readonly string[]
  readonly tenants?: readonly string[]
  readonly effects?: readonly EffectClass[]
  /** A tool needs at least one of them. */
  readonly tags?: readonly string[]
  /** Conditions on the arguments. */
  readonly when?: When
  readonly reason?: string | undefined
  /** The name of the rule in explanations; its index in the list when absent. */
  readonly name?: string | undefined
}

type Patterns = string | readonly string[]

interface Floored {
  /** The least isolation of programs, whatever other rules allow; a call that runs outside a sandbox is refused. */
  readonly floor?: Isolation
}

/** One rule: a verb, the tools it matches (`*`, `ns:*`, `ns:prefix*`, `ns:name`, `ns:name:1.0.0`), and its scope. */
export type Rule = RuleScope &
  (
    | (Floored & {
        readonly allow: Patterns
        readonly deny?: never
        readonly ask?: never
        readonly unavailable?: never
      })
    | { readonly deny: Patterns; readonly allow?: never; readonly ask?: never; readonly unavailable?: never }
    | (Floored & {
        readonly ask: Patterns
        readonly allow?: never
        readonly deny?: never
        readonly unavailable?: never
        /** Roles that may approve, in addition to the approvers of the host. */
        readonly approvers?: readonly string[]
      })
    | { readonly unavailable: Patterns; readonly allow?: never; readonly deny?: never; readonly ask?: never }
  )

export interface RulesOptions {
  /** The decision on a call that no rule matches; `deny` when absent. */
  readonly default?: 'allow' | 'deny' | undefined
}

const optionsOfRules = optionsCheck<RulesOptions>({
  members: { default: oneOf('allow', 'deny') },
  noun: 'an option of rules',
})

/** More rules are refused, because they may be untrusted. */
const mostRules = 10_000

/**
 * A policy from plain data. Order does not matter: any deny wins over any unavailable, that over any ask, and any ask
 * over any allow. Throws CONFIG_INVALID with every failing path.
 */
export function rules(list: readonly Rule[], options: RulesOptions = {}): Policy {
  const index = createRuleIndex(readAll(list, options))
  const otherwise: Decision =
    options.default === 'allow' ? { effect: 'allow' } : { effect: 'deny', reason: 'No rule allows it.' }
  const decide = ({ identity, tool, args }: PolicyRequest): Decision => {
    let found: Found | undefined
    index.visit(tool, identity, (rule) => {
      if (isFor(rule, identity) && (rule.when === undefined || rule.when(args))) found = next(found, rule)
    })
    return found?.decision ?? otherwise
  }
  return {
    decide,
    // The arguments are unknown: a conditional allow may match some call, and a conditional deny may not match one.
    visible({ identity, tool }) {
      let found: Found | undefined
      index.visit(tool, identity, (rule) => {
        const certain = rule.when === undefined || rule.decision.effect === 'allow'
        if (certain && isFor(rule, identity)) found = next(found, rule)
      })
      return (found?.decision ?? otherwise).effect !== 'deny'
    },
  }
}

interface Found {
  readonly decision: Decision
  /** Index of the rule that decided. */
  readonly index: number
}

/** Of equally strict rules the first in the list decides, in whatever order they are visited. */
function next(before: Found | undefined, rule: CompiledRule): Found {
  if (before === undefined || before.index === rule.index) return rule
  const [earlier, later] = before.index < rule.index ? [before, rule] : [rule, before]
  const decision = strictest(earlier.decision, later.decision)
  if (decision === earlier.decision) return earlier
  if (decision === later.decision) return later
  return { decision, index: (rankOf(later.decision) > rankOf(earlier.decision) ? later : earlier).index }
}

/** A misspelled condition would widen a rule, so invalid rules are refused. */
function readAll(list: unknown, options: RulesOptions): readonly CompiledRule[] {
  const issues: Issue[] = []
  if (!Array.isArray(list)) issues.push({ path: '/rules', message: 'must be a list of rules' })
  const given: readonly unknown[] = Array.isArray(list) ? list : []
  if (given.length > mostRules) issues.push({ path: '/rules', message: `must not have more than ${mostRules} rules` })
  const read = Array.from(given.slice(0, mostRules), (rule, index) => readRule(rule, index, issues))
  refuse('policy', [...issues, ...optionsOfRules.issues(options, '')])
  return read.filter((rule) => rule !== undefined)
}

/** Finds the rules that can match a call. */
interface RuleIndex {
  /** Visits each rule that can match the tool and the caller, some of them twice; the callback checks the match. */
  visit(tool: Tool, identity: Identity, onRule: (rule: CompiledRule) => void): void
}

/** Most sets of rules that are cached; the tools of a catalog produce few distinct sets. */
const mostSets = 1_000

/**
 * Rules that match every tool are in one index by caller. The others are looked up by namespace once per tool and put
 * into an index by caller, which tools with the same rules share. A decision costs a few look-ups and the rules found.
 */
export function createRuleIndex(rules: readonly CompiledRule[]): RuleIndex {
  const everywhere = byCaller(rules.filter(({ about }) => about === undefined))
  const byNamespace = new Map<string, CompiledRule[]>()
  const inAny: CompiledRule[] = []
  for (const rule of rules) {
    if (rule.about === undefined) continue
    if (rule.namespaces === undefined) inAny.push(rule)
    for (const namespace of rule.namespaces ?? []) push(byNamespace, namespace, rule)
  }
  const ofTool = new WeakMap<Tool, CallerIndex>()
  const shared = new Map<string, CallerIndex>()
  const find = (tool: Tool): CallerIndex => {
    const candidates = [...inAny, ...(byNamespace.get(tool.namespace.toLowerCase()) ?? [])]
    const found = candidates.filter(({ about }) => about?.(tool))
    const name = found.map(({ index }) => index).join()
    const index = shared.get(name) ?? byCaller(found)
    if (shared.size >= mostSets) shared.clear()
    shared.set(name, index)
    ofTool.set(tool, index)
    return index
  }
  return {
    visit(tool, identity, onRule) {
      everywhere(identity, onRule)
      const index = ofTool.get(tool) ?? find(tool)
      index(identity, onRule)
    },
  }
}

type CallerIndex = (identity: Identity, onRule: (rule: CompiledRule) => void) => void

/** Indexes each rule by its most selective condition: tenants, else principals, else roles, else none. */
function byCaller(rules: readonly CompiledRule[]): CallerIndex {
  const [tenants, principals, prefixes, roles] = [table(), table(), table(), table()]
  const anyCaller: CompiledRule[] = []
  for (const rule of rules) {
    if (rule.tenants !== undefined) for (const tenant of rule.tenants) push(tenants, tenant, rule)
    else if (rule.principals !== undefined) {
      for (const principal of rule.principals.exact) push(principals, principal, rule)
      for (const prefix of rule.principals.prefixes) push(prefixes, prefix, rule)
    } else if (rule.roles !== undefined) for (const role of rule.roles) push(roles, role, rule)
    else anyCaller.push(rule)
  }
  const lengths = [...new Set([...prefixes.keys()].map((prefix) => prefix.length))]
  return (identity, onRule) => {
    const each = (found: readonly CompiledRule[] | undefined): void => {
      if (found !== undefined) for (const rule of found) onRule(rule)
    }
    each(anyCaller)
    if (tenants.size > 0) each(tenants.get(identity.tenant))
    if (principals.size > 0) each(principals.get(identity.principal))
    for (const length of lengths) {
      if (length <= identity.principal.length) each(prefixes.get(identity.principal.slice(0, length)))
    }
    if (roles.size > 0) for (const role of identity.roles ?? []) each(roles.get(role))
  }
}

function table(): Map<string, CompiledRule[]> {
  return new Map()
}

function push(lists: Map<string, CompiledRule[]>, key: string, rule: CompiledRule): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [rule])
  else list.push(rule)
}
