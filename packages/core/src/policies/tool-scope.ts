import type { Identity } from '@gantry/contract'
import { type NamedTool, type ToolMatcher, toolMatcher } from '../ids/tool-pattern.ts'
import type { Policy } from './policy.ts'

/** Whether a tool of this name is there for an identity. Quick, and never throws. */
export type ToolScope = (identity: Identity, tool: NamedTool) => boolean

/** Lists of patterns that are remembered; identities of one key or one tenant have the same. */
const mostLists = 1_000

/** What an identity is bound to, and what the policy says is there for it: both must say yes. */
export function toolScope(policy: Policy | undefined): ToolScope {
  const matchers = new Map<string, ToolMatcher>()
  const matcherOf = (patterns: readonly string[]): ToolMatcher => {
    const name = JSON.stringify(patterns)
    const known = matchers.get(name)
    if (known !== undefined) return known
    if (matchers.size >= mostLists) matchers.clear()
    const matcher = scopeOf(patterns)
    matchers.set(name, matcher)
    return matcher
  }
  return (identity, tool) => {
    const { tools } = identity
    if (tools !== undefined && !matcherOf(tools)(tool)) return false
    return policy?.exists === undefined || isThere(policy, identity, tool)
  }
}

/** A list that is not understood whole, and an empty one, give nothing. */
function scopeOf(patterns: readonly string[]): ToolMatcher {
  const issues: never[] = []
  const matches = toolMatcher(patterns, '', issues)
  return issues.length === 0 ? matches : () => false
}

function isThere(policy: Policy, identity: Identity, tool: NamedTool): boolean {
  try {
    return policy.exists?.(identity, tool) === true
  } catch {
    return false
  }
}
