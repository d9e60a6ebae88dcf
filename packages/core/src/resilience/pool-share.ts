/** What takes a place in a pool that callers fill, and whose it is. */
export interface PoolEntry {
  readonly tenant: string
  readonly principal: string
  /** Nothing goes on in it, so that it may be closed for another one. */
  readonly idle: boolean
  /** When it was last used, on any clock that all entries share. */
  readonly usedAt: number
}

export interface PoolLimits {
  /** Entries of all callers together. */
  readonly total: number
  readonly perTenant: number
  readonly perPrincipal: number
}

/** Whether one more entry may come, perhaps in the place of another one. */
export type PoolAdmission<Entry> =
  | { readonly kind: 'free' }
  | { readonly kind: 'replace'; readonly victim: Entry }
  | { readonly kind: 'full'; readonly scope: 'principal' | 'tenant' | 'pool'; readonly most: number }

type Owner = Pick<PoolEntry, 'tenant' | 'principal'>

/**
 * Decides about one more entry of an owner. Nobody is refused for what others hold beyond their share: in a full pool the
 * tenant that has most, and at the limit of a tenant its principal that has most, loses the idle entry that was not used
 * for longest, as long as it has more than the tenant or principal that asks. At equal shares an owner replaces an idle
 * entry of its own, unless `replaceOwn` is false, for entries whose loss their owner should decide on.
 */
export function admitToPool<Entry extends PoolEntry>(
  entries: Iterable<Entry>,
  owner: Owner,
  limits: PoolLimits,
  { replaceOwn = true }: { readonly replaceOwn?: boolean } = {},
): PoolAdmission<Entry> {
  const all = [...entries]
  const ofTenant = all.filter(({ tenant }) => tenant === owner.tenant)
  const own = ofTenant.filter(({ principal }) => principal === owner.principal)
  const scopes = [
    { scope: 'principal', most: limits.perPrincipal, held: own, groups: [] },
    { scope: 'tenant', most: limits.perTenant, held: ofTenant, groups: grouped(ofTenant, 'principal') },
    { scope: 'pool', most: limits.total, held: all, groups: grouped(all, 'tenant') },
  ] as const
  const reached = scopes.find(({ most, held }) => held.length >= most)
  if (reached === undefined) return { kind: 'free' }
  const { scope, most, groups } = reached
  const mine = scope === 'pool' ? ofTenant : own
  const larger = groups.filter((group) => group.length > mine.length).sort((a, b) => b.length - a.length)
  const victim = firstOf([...larger, ...(replaceOwn ? [own, mine] : [])])
  return victim === undefined ? { kind: 'full', scope, most } : { kind: 'replace', victim }
}

function firstOf<Entry extends PoolEntry>(groups: readonly (readonly Entry[])[]): Entry | undefined {
  for (const group of groups) {
    const [oldest] = group.filter(({ idle }) => idle).sort((a, b) => a.usedAt - b.usedAt)
    if (oldest !== undefined) return oldest
  }
  return undefined
}

function grouped<Entry extends PoolEntry>(entries: readonly Entry[], by: keyof Owner): readonly (readonly Entry[])[] {
  return [...Map.groupBy(entries, (entry) => entry[by]).values()]
}
