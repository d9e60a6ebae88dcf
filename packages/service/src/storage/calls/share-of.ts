import type { ClaimOptions, Share } from './call-store.ts'

/** What a tenant gets: its own share, or that of all who are not named. */
export function shareOf(shares: ClaimOptions['shares'], tenant: string): Share {
  if (shares === undefined) return {}
  return (Object.hasOwn(shares, tenant) ? shares[tenant] : shares['*']) ?? {}
}
