import type { Issue, JsonObject } from '@gantry/contract'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import { tenantsOf } from './tenant-settings.ts'

/** What is wrong with the tenants of a configuration besides what the schema says. */
export function tenantIssues({ tenants }: JsonObject): Issue[] {
  const issues: Issue[] = []
  for (const [tenant, settings] of Object.entries(tenantsOf(tenants))) {
    const at = `/tenants/${tenant.replaceAll('~', '~0').replaceAll('/', '~1')}/tools`
    if (Array.isArray(settings?.tools) && settings.tools.length > 0) toolMatcher(settings.tools, at, issues)
  }
  return issues
}
