import type { Identity, Tool } from '@gantry/contract'
import type { CompiledRule } from './read-rule.ts'

/** Finds the few rules of many that can be about a call. */
export interface RuleIndex {
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
