import { type EffectClass, type Identity, type Isolation, type Issue, type Tool, ToolError } from '@gantry/contract'
import { unknownKeys } from '../search/index.ts'
import type { When } from './condition.ts'
import { type Decision, type Policy, type PolicyRequest, rankOf, strictest } from './policy.ts'
import { type CompiledRule, isFor, readRule } from './read-rule.ts'

/** Whom and what a rule is about; every condition that is there must hold. */
interface RuleScope {
  /** Principals, exact or with a trailing `*`. */
  readonly to?: string | readonly string[]
  readonly roles?: readonly string[]
  readonly tenants?: readonly string[]
  readonly effects?: readonly EffectClass[]
  /** A tool needs one of them. */
  readonly tags?: readonly string[]
  /** What must be true of the arguments. */
  readonly when?: When
  readonly reason?: string | undefined
  /** What explanations call the rule; its place in the list when absent. */
  readonly name?: string | undefined
}

type Patterns = string | readonly string[]

interface Floored {
  /** Programs must be isolated at least so, whatever other rules say; what runs in no sandbox is refused. */
  readonly floor?: Isolation
}

/** One rule: a verb, the tools it is about (`*`, `ns:*`, `ns:prefix*`, `ns:name`, `ns:name:1.0.0`), and its scope. */
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
        /** Roles that may answer besides those who always may. */
        readonly approvers?: readonly string[]
      })
    | { readonly unavailable: Patterns; readonly allow?: never; readonly deny?: never; readonly ask?: never }
  )

export interface RulesOptions {
  /** What happens to a call that no rule is about; `deny` unless said otherwise. */
  readonly default?: 'allow' | 'deny' | undefined
}

/** More are refused, because somebody outside may have written them. */
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
    // Nothing is known of the arguments: a rule that depends on them may let one call pass and may not stop another.
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
  /** Place of the rule that decided. */
  readonly index: number
}

/** The first of rules that are equally strict decides, in whatever order they are come by. */
function next(before: Found | undefined, rule: CompiledRule): Found {
  if (before === undefined || before.index === rule.index) return rule
  const [earlier, later] = before.index < rule.index ? [before, rule] : [rule, before]
  const decision = strictest(earlier.decision, later.decision)
  if (decision === earlier.decision) return earlier
  if (decision === later.decision) return later
  return { decision, index: (rankOf(later.decision) > rankOf(earlier.decision) ? later : earlier).index }
}

/** A misspelt condition would widen a rule, so rules that are not understood whole are refused. */
function readAll(list: unknown, options: RulesOptions): readonly CompiledRule[] {
  const issues: Issue[] = []
  if (!Array.isArray(list)) issues.push({ path: '/rules', message: 'must be a list of rules' })
  const given: readonly unknown[] = Array.isArray(list) ? list : []
  if (given.length > mostRules) issues.push({ path: '/rules', message: `must not have more than ${mostRules} rules` })
  const read = Array.from(given.slice(0, mostRules), (rule, index) => readRule(rule, index, issues))
  if (!['allow', 'deny', undefined].includes(options.default)) {
    issues.push({ path: '/default', message: 'must be allow or deny' })
  }
  issues.push(...unknownKeys(options, ['default'], '', 'is not an option of rules'))
  if (issues.length === 0) return read.filter((rule) => rule !== undefined)
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `The policy is wrong: ${text}.`, { details: { issues } })
}

/** Finds the few rules of many that can be about a call. */
interface RuleIndex {
  /** Gives each rule that can be about the tool and the caller, some of them twice; it is for the visitor to ask them. */
  visit(tool: Tool, identity: Identity, visitor: (rule: CompiledRule) => void): void
}

/** Different sets of rules that are remembered; what tools there are can only make so many of them. */
const mostSets = 1_000

/**
 * Rules about every tool stand in one index by caller. The others are looked up by namespace once for each tool, and
 * stand in an index by caller too, which tools about which the same rules are share. A decision then costs a few
 * look-ups and the rules it finds.
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
    visit(tool, identity, visitor) {
      everywhere(identity, visitor)
      const index = ofTool.get(tool) ?? find(tool)
      index(identity, visitor)
    },
  }
}

type CallerIndex = (identity: Identity, visitor: (rule: CompiledRule) => void) => void

/** Each rule stands under what narrows it most: its tenants, else its principals, else its roles, else nothing. */
function byCaller(rules: readonly CompiledRule[]): CallerIndex {
  const [tenants, principals, prefixes, roles] = [table(), table(), table(), table()]
  const anybody: CompiledRule[] = []
  for (const rule of rules) {
    if (rule.tenants !== undefined) for (const tenant of rule.tenants) push(tenants, tenant, rule)
    else if (rule.principals !== undefined) {
      for (const principal of rule.principals.exact) push(principals, principal, rule)
      for (const prefix of rule.principals.prefixes) push(prefixes, prefix, rule)
    } else if (rule.roles !== undefined) for (const role of rule.roles) push(roles, role, rule)
    else anybody.push(rule)
  }
  const lengths = [...new Set([...prefixes.keys()].map((prefix) => prefix.length))]
  return (identity, visitor) => {
    const each = (found: readonly CompiledRule[] | undefined): void => {
      if (found !== undefined) for (const rule of found) visitor(rule)
    }
    each(anybody)
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
