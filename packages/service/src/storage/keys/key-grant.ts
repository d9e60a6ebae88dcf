import { type Identity, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'

/** What lets somebody make and see keys of tenants other than his own. */
export const everyTenant = 'gantry:tenants'

/**
 * Refuses a key that could do what its maker cannot: with permissions or roles that he does not hold, for tools or a
 * tenant that are not his, or in the name of somebody else. Throws DENIED.
 */
export function refuseBeyond(grant: Identity, maker: Identity): void {
  const { tenant, principal, permissions, roles = [], tools } = grant
  const all = holds(maker, '*')
  if (tenant !== maker.tenant && !holds(maker, everyTenant)) throw denied(`keys of another tenant (${everyTenant})`)
  const more = permissions.find((permission) => !holds(maker, permission))
  if (more !== undefined) throw denied(`the permission ${JSON.stringify(more)}`)
  const role = all ? undefined : roles.find((one) => !maker.roles?.includes(one))
  if (role !== undefined) throw denied(`the role ${JSON.stringify(role)}`)
  if (!all && !isOwn(grant, maker) && !principal.startsWith('key:')) {
    throw new ToolError('DENIED', 'The principal of a new key is your own or begins with key: unless you hold *.')
  }
  if (maker.tools === undefined) return
  const tool = tools === undefined ? '*' : tools.find((pattern) => !covers(maker.tools ?? [], pattern))
  if (tool !== undefined) throw denied(`the tools ${JSON.stringify(tool)}`)
}

/** Whether a key would be the maker's own. */
export function isOwn({ tenant, principal }: Identity, maker: Identity): boolean {
  return principal === maker.principal && tenant === maker.tenant
}

/** Whether every tool that a pattern means is meant by one of the others; in case of doubt it is not. */
function covers(wide: readonly string[], pattern: string): boolean {
  return wide.some(
    (one) =>
      one === pattern || (one.endsWith('*') ? pattern.startsWith(one.slice(0, -1)) : pattern.startsWith(`${one}:`)),
  )
}

function denied(what: string): ToolError {
  return new ToolError('DENIED', `A key can grant only what its maker holds, which ${what} is not.`)
}
