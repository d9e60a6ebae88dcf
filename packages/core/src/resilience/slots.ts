import { onAbort } from './abort.ts'

/** Releases a slot; a second call does nothing. */
export type Release = () => void

/** Limits the concurrent holders of a key; the rest wait. */
export interface Slots {
  /**
   * Resolves with the release of a slot. Waiting tenants are served round-robin, so that none waits behind the whole
   * queue of another; within a tenant the order is that of arrival.
   * Rejects with the reason of the signal when it aborts first; no slot is held then.
   */
  take(key: string, size: number, signal: AbortSignal, tenant?: string): Promise<Release>
  /** Takes a slot without waiting; undefined when none is free for the tenant. */
  takeNow(key: string, size: number, tenant?: string): Release | undefined
}

/** How many of `size` slots a tenant may hold; the others stay available to other tenants. */
type ShareOf = (size: number, tenant: string) => number

interface SlotsOptions {
  /** Work without a tenant is served round-robin too and has no such limit. All slots when absent. */
  readonly share?: ShareOf
}

/** The share of a limit of the executor's own pools: three quarters, at least one slot. */
export const ownShare: ShareOf = (size) => Math.max(1, Math.floor(size * 0.75))

/** The tenants of installations that have only one: those of the library and of the first key of a service. */
const onlyTenants: readonly string[] = ['local', 'default']
/** Fewer slots cannot be divided without halving the limit that the tool or backend declares. */
const fewestShared = 4

/**
 * The share of a limit that a tool or a backend declares: three quarters, rounded up. The only tenant of an installation
 * may use all of it, and so may any tenant of a limit below four, which tenants use one after the other.
 */
export const declaredShare: ShareOf = (size, tenant) =>
  size < fewestShared || onlyTenants.includes(tenant) ? size : size - Math.floor(size / 4)

interface Queue {
  readonly key: string
  size: number
  running: number
  /** Held slots by tenant; undefined without shares. */
  readonly held: Map<string, number> | undefined
  /** Waiters by tenant, the next tenant first. Sets keep the order of arrival and allow removal from the middle. */
  readonly waiting: Map<string, Set<() => void>>
}

export function createSlots({ share }: SlotsOptions = {}): Slots {
  const queues = new Map<string, Queue>()

  const queueOf = (key: string, size: number): Queue => {
    const known = queues.get(key)
    if (known !== undefined) {
      known.size = size
      return known
    }
    const queue = { key, size, running: 0, held: share === undefined ? undefined : new Map(), waiting: new Map() }
    queues.set(key, queue)
    return queue
  }
  const mayHaveMore = ({ held, size }: Queue, tenant: string): boolean =>
    share === undefined || tenant === '' || (held?.get(tenant) ?? 0) < share(size, tenant)

  const give = (queue: Queue, tenant: string): Release => {
    queue.running += 1
    queue.held?.set(tenant, (queue.held.get(tenant) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      queue.running -= 1
      const left = (queue.held?.get(tenant) ?? 1) - 1
      if (left > 0) queue.held?.set(tenant, left)
      else queue.held?.delete(tenant)
      serve(queue)
      if (queue.running === 0) queues.delete(queue.key)
    }
  }
  /** Grants free slots. Afterwards only tenants at their share wait while a slot is free, so a new call overtakes no waiter. */
  const serve = (queue: Queue): void => {
    while (queue.waiting.size > 0 && queue.running < queue.size) {
      const next = nextIn(queue, mayHaveMore)
      if (next === undefined) return
      next()
    }
  }
  const takeNow = (key: string, size: number, tenant = ''): Release | undefined => {
    const queue = queueOf(key, size)
    return queue.running < size && mayHaveMore(queue, tenant) ? give(queue, tenant) : undefined
  }
  return {
    takeNow,
    take(key, size, signal, tenant = '') {
      if (signal.aborted) return Promise.reject(signal.reason)
      const taken = takeNow(key, size, tenant)
      if (taken !== undefined) return Promise.resolve(taken)
      const queue = queueOf(key, size)
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          stopListening()
          resolve(give(queue, tenant))
        }
        const leave = (): void => {
          remove(queue, tenant, enter)
          reject(signal.reason)
        }
        const line = queue.waiting.get(tenant) ?? new Set()
        queue.waiting.set(tenant, line.add(enter))
        const stopListening = onAbort(signal, leave)
      })
    },
  }
}

/** Removes the first waiter of the next tenant from the queue and moves that tenant to the end. */
function nextIn(queue: Queue, mayHaveMore: (queue: Queue, tenant: string) => boolean): (() => void) | undefined {
  for (const [tenant, line] of queue.waiting) {
    if (!mayHaveMore(queue, tenant)) continue
    const [next] = line
    queue.waiting.delete(tenant)
    if (next === undefined) return undefined
    line.delete(next)
    if (line.size > 0) queue.waiting.set(tenant, line)
    return next
  }
  return undefined
}

function remove({ waiting }: Queue, tenant: string, one: () => void): void {
  const line = waiting.get(tenant)
  line?.delete(one)
  if (line?.size === 0) waiting.delete(tenant)
}

/** An entry of a pool, with its owner. */
export interface PoolEntry {
  readonly tenant: string
  readonly principal: string
  /** The entry is unused and may be closed to admit another. */
  readonly idle: boolean
  /** Time of the last use, on a clock that all entries share. */
  readonly usedAt: number
}

interface PoolLimits {
  /** Most entries in the pool. */
  readonly total: number
  readonly perTenant: number
  readonly perPrincipal: number
}

/** Whether one more entry is admitted, and which entry it replaces. */
export type PoolAdmission<Entry> =
  | { readonly kind: 'free' }
  | { readonly kind: 'replace'; readonly victim: Entry }
  | { readonly kind: 'full'; readonly scope: 'principal' | 'tenant' | 'pool'; readonly most: number }

type Owner = Pick<PoolEntry, 'tenant' | 'principal'>

/**
 * Decides whether an owner gets one more entry. No owner is refused because others exceed their fair share: in a full
 * pool the tenant with the most entries, and at the tenant limit the principal with the most, loses its least recently
 * used idle entry, as long as it has more entries than the requesting tenant or principal. At equal shares an owner
 * replaces an idle entry of its own. `replaceOwn: false` disables that, for entries that only their owner may close.
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
