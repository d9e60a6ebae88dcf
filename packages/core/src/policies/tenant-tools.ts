import type { Issue } from '@gantry/contract'
import { type ToolMatcher, toolMatcher } from '../ids/tool-pattern.ts'
import { refuse } from '../options/options.ts'
import type { Policy } from './policy.ts'

/**
 * A policy that divides the tools between tenants. For a tenant with patterns only matching tools exist; for other tenants
 * the tools of `*`, or all tools when there is no `*`. It denies no call.
 * Throws CONFIG_INVALID with every failing path.
 */
export function tenantTools(patterns: { readonly [tenant: string]: readonly string[] }): Policy {
  const issues: Issue[] = []
  const matchers = new Map<string, ToolMatcher>(
    Object.entries(patterns).map(([tenant, list]) => [tenant, toolMatcher(list, `/${tenant}/tools`, issues)]),
  )
  refuse('tools of tenants', issues)
  const usual = matchers.get('*')
  return {
    decide: () => ({ effect: 'allow' }),
    exists: ({ tenant }, tool) => (matchers.get(tenant) ?? usual)?.(tool) ?? true,
  }
}
