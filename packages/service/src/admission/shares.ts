import { type Limits, limitsOf, type TenantLimits, type TenantsLimits } from '../config/tenant-limits.ts'
import type { ClaimOptions, Share } from '../storage/calls/call-store.ts'

/** What the limits of tenants mean for those who claim; undefined when nothing sets one tenant apart from another. */
export function sharesOf(tenants: TenantsLimits): ClaimOptions['shares'] {
  const shares = Object.keys(tenants).map((tenant): [string, Share] => [tenant, shareIn(limitsOf(tenants, tenant))])
  return shares.every(([, share]) => Object.keys(share).length === 0) ? undefined : Object.fromEntries(shares)
}

function shareIn({ weight, concurrency, principals = {} }: TenantLimits): Share {
  const held = Object.entries(principals).flatMap(([principal, own]) => {
    const most = { ...withStar(principals), ...own }.concurrency
    return most === undefined ? [] : [[principal, most] as const]
  })
  return {
    ...(weight === undefined ? {} : { weight }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(held.length === 0 ? {} : { principals: Object.fromEntries(held) }),
  }
}

function withStar(principals: { readonly [principal: string]: Limits }): Limits {
  return (Object.hasOwn(principals, '*') ? principals['*'] : undefined) ?? {}
}
