import { type Issue, ToolError } from '@gantry/contract'
import { type ToolMatcher, toolMatcher } from '../ids/tool-pattern.ts'
import type { Policy } from './policy.ts'

/**
 * A policy that divides the tools between tenants: for each of those named only the tools that fit its patterns are
 * there, and for others those of `*`, or all of them when nothing is said. It forbids nothing besides.
 * Throws CONFIG_INVALID with every failing path.
 */
export function tenantTools(patterns: { readonly [tenant: string]: readonly string[] }): Policy {
  const issues: Issue[] = []
  const matchers = new Map<string, ToolMatcher>(
    Object.entries(patterns).map(([tenant, list]) => [tenant, toolMatcher(list, `/${tenant}/tools`, issues)]),
  )
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `The tools of the tenants are wrong: ${text}.`, { details: { issues } })
  }
  const usual = matchers.get('*')
  return {
    decide: () => ({ effect: 'allow' }),
    exists: ({ tenant }, tool) => (matchers.get(tenant) ?? usual)?.(tool) ?? true,
  }
}
