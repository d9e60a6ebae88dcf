import { type Identity, ToolError } from '@gantry/contract'
import type { RedisConnections } from '../brokers/transports/redis/connection.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import {
  type Limits,
  limitsOf,
  principalLimits,
  type TenantLimits,
  type TenantsLimits,
} from '../config/tenant-limits.ts'
import type { CallStore, ClaimOptions, Share } from '../storage/calls/call-store.ts'
import type { Database } from '../storage/databases/database.ts'
import type { PeriodicJob } from '../storage/periodic-jobs.ts'
import { type Allowance, createAdvances } from './bucket-advances.ts'
import type { Buckets } from './buckets/bucket.ts'
import { redisBuckets } from './buckets/redis.ts'
import { sqlBuckets } from './buckets/sql.ts'
import {
  type Bound,
  type CountedSlots,
  createCountedSlots,
  createQueueDepth,
  type QueueDepth,
  type QueueSlot,
} from './counted-slots.ts'

/**
 * The limits of tenants and their principals. They apply to an identity, whatever address or key it uses. While they
 * cannot be looked up, calls of identities with limits are refused.
 * - Errors: RATE_LIMITED with `details.retryAfterMs`, LIMIT_EXCEEDED for a call that costs more than the whole budget,
 *   STORE_UNAVAILABLE when the store does not answer.
 */
export interface TenantGate {
  /** Counts a submitted call, whether it is admitted or not; undefined when its caller has no limits. */
  enter(identity: Identity): Promise<void> | undefined
  /** Spends the cost of a call; resolves with the function that gives it back. */
  spend(identity: Identity, cost: number): Promise<() => void>
  /**
   * Counts an inner call of a chain or a program, and spends its cost; resolves with the function that gives the cost
   * back. Undefined when its caller has no limits.
   */
  inside(identity: Identity, cost: number): Promise<() => void> | undefined
  /** Whether the waiting calls of this identity are counted. */
  counts(identity: Identity): boolean
  /** Takes a slot for a call that is going to wait; undefined when waiting calls are not counted. */
  place(identity: Identity): Promise<QueueSlot> | undefined
  /** The concurrency limit of this identity; infinite without one. */
  mostAtOnce(identity: Identity): number
  /** The shares of tenants, for claims. */
  shares(): ClaimOptions['shares']
}

interface TenantGateOptions {
  /** The current limits; another object when they have changed. */
  readonly tenants: () => TenantsLimits
  readonly buckets: Pick<Buckets, 'draw' | 'give'>
  readonly store: Pick<CallStore, 'waiting'>
  /** The limit of waiting calls of the whole queue. */
  readonly mostQueued: () => number
}

/** A subject of limits: the tenant, or a principal of it. */
interface Holder {
  readonly name: string
  readonly principal: string | undefined
  readonly limits: Limits
  readonly rate: Allowance | undefined
  readonly cost: Allowance | undefined
}

const mostKnown = 10_000
const queueHintMs = 1_000

export function createTenantGate(options: TenantGateOptions): TenantGate {
  const advances = createAdvances(options.buckets)
  const queueSlots = createQueueSlots(options.store, () => Math.max(options.mostQueued(), current().mostQueued))
  let compiled = compile(options.tenants())
  const current = (): Compiled => {
    const tenants = options.tenants()
    if (tenants !== compiled.tenants) compiled = compile(tenants)
    return compiled
  }
  /**
   * Takes from all holders or from none: on a refusal the tokens taken before it go back. Resolves with the function
   * that gives all back.
   */
  const take = async (
    holders: readonly Holder[],
    what: 'rate' | 'cost',
    tokens: number,
    refusal: (name: string) => string,
  ): Promise<() => void> => {
    const taken: Allowance[] = []
    const giveBack = (): void => {
      for (const allowance of taken) advances.giveBack(allowance, tokens)
    }
    const asked = holders.flatMap(({ name, [what]: allowance }) =>
      allowance === undefined ? [] : [{ name, allowance }],
    )
    // When one bucket is known to be empty nothing is taken from the others; a flood would only carry their tokens to
    // and fro.
    for (const { name, allowance } of asked) {
      const waitMs = advances.refusal(allowance, tokens)
      if (waitMs > 0) throw limited(refusal(name), waitMs)
    }
    for (const { name, allowance } of asked) {
      const waitMs = await advances.take(allowance, tokens).catch((error: unknown) => {
        giveBack()
        throw error
      })
      if (waitMs === 0) taken.push(allowance)
      else {
        giveBack()
        throw limited(refusal(name), waitMs)
      }
    }
    return giveBack
  }
  const count = (holders: readonly Holder[]) => take(holders, 'rate', 1, (name) => `${name} made too many calls`)
  const enter = async ({ tenant }: Identity, holders: readonly Holder[]): Promise<void> => {
    const bounds = boundsOf(holders)
    const full = bounds.length === 0 ? undefined : await queueSlots.of(tenant).reached(bounds)
    if (full !== undefined) throw crowded(full, holders)
    await count(holders)
  }
  const place = async ({ tenant, principal }: Identity, holders: readonly Holder[]): Promise<QueueSlot> => {
    const taken = await queueSlots.of(tenant).take(principal, boundsOf(holders))
    if (taken.kind === 'full') throw crowded(taken.bound, holders)
    return taken.place
  }
  const spend = async (holders: readonly Holder[], cost: number): Promise<() => void> => {
    const small = holders.find(({ limits }) => (limits.cost?.budget ?? cost) < cost)
    if (small !== undefined) throw dear(cost, small)
    return take(holders, 'cost', cost, (name) => `${name} has less than the ${cost} units left that the call costs`)
  }
  const inside = async (holders: readonly Holder[], cost: number): Promise<() => void> => {
    const uncount = await count(holders)
    if (cost === 0) return () => undefined
    return spend(holders, cost).catch((error: unknown) => {
      uncount()
      throw error
    })
  }
  return {
    enter(identity) {
      const holders = current().holdersOf(identity)
      return holders.length === 0 ? undefined : enter(identity, holders)
    },
    spend: (identity, cost) => spend(current().holdersOf(identity), cost),
    inside(identity, cost) {
      const holders = current().holdersOf(identity)
      return holders.length === 0 ? undefined : inside(holders, cost)
    },
    counts: (identity) => hasQueue(current().holdersOf(identity)),
    place(identity) {
      const holders = current().holdersOf(identity)
      return hasQueue(holders) ? place(identity, holders) : undefined
    },
    mostAtOnce(identity) {
      const holders = current().holdersOf(identity)
      return Math.min(...holders.map(({ limits }) => limits.concurrency ?? Number.POSITIVE_INFINITY))
    },
    shares: () => current().shares,
  }
}

interface Compiled {
  readonly tenants: TenantsLimits
  readonly shares: ClaimOptions['shares']
  /** The highest limit of waiting calls in the configuration. */
  readonly mostQueued: number
  holdersOf(identity: Identity): readonly Holder[]
}

const none: readonly Holder[] = []

function compile(tenants: TenantsLimits): Compiled {
  const unlimited = Object.values(tenants).every((limits) => Object.keys(limits).every((key) => key === 'tools'))
  const known = new Map<string, readonly Holder[]>()
  return {
    tenants,
    shares: sharesOf(tenants),
    mostQueued: Math.max(0, ...Object.values(tenants).flatMap(queuedIn)),
    holdersOf({ tenant, principal }) {
      if (unlimited) return none
      const key = JSON.stringify([tenant, principal])
      const found = known.get(key) ?? holders(tenants, tenant, principal)
      if (known.size >= mostKnown) known.clear()
      known.set(key, found)
      return found
    },
  }
}

function holders(tenants: TenantsLimits, tenant: string, principal: string): readonly Holder[] {
  const whole = limitsOf(tenants, tenant)
  const own = principalLimits(whole, principal)
  // The principal first: one over its limit then takes no token of its tenant.
  return [
    holder(`${principal} of the tenant ${tenant}`, [tenant, principal], principal, own),
    holder(`The tenant ${tenant}`, [tenant], undefined, whole),
  ].filter(({ limits: { rate, concurrency, queued, cost } }) => (rate ?? concurrency ?? queued ?? cost) !== undefined)
}

function holder(name: string, key: readonly string[], principal: string | undefined, limits: Limits): Holder {
  const { rate, cost } = limits
  return {
    name,
    principal,
    limits,
    rate: rate && {
      key: JSON.stringify(['rate', ...key]),
      capacity: rate.burst ?? Math.max(1, rate.perSecond),
      perMs: rate.perSecond / 1_000,
    },
    cost: cost && {
      key: JSON.stringify(['cost', ...key]),
      capacity: cost.budget,
      perMs: cost.budget / cost.everyMs,
    },
  }
}

function queuedIn({ queued = 0, principals = {} }: TenantLimits): readonly number[] {
  return [queued, ...Object.values(principals).map((own) => own.queued ?? 0)]
}

function hasQueue(holders: readonly Holder[]): boolean {
  return holders.some(({ limits }) => limits.queued !== undefined)
}

function boundsOf(holders: readonly Holder[]): readonly Bound[] {
  return holders.flatMap(({ principal: name, limits: { queued: most } }) =>
    most === undefined ? [] : [{ name, most }],
  )
}

function crowded({ name, most }: Bound, holders: readonly Holder[]): ToolError {
  const whose = holders.find(({ principal }) => principal === name)?.name
  return limited(`${whose} has ${most} calls waiting, which is the most`, queueHintMs)
}

function limited(what: string, waitMs: number): ToolError {
  const retryAfterMs = Math.ceil(waitMs)
  const text = `${what}; try again in ${retryAfterMs} ms.`
  return new ToolError('RATE_LIMITED', text, { stage: 'admit', details: { retryAfterMs, scope: 'caller' } })
}

function dear(cost: number, { name, limits }: Holder): ToolError {
  const text = `The call costs ${cost} units, and the whole budget of ${lowered(name)} is ${limits.cost?.budget}.`
  return new ToolError('LIMIT_EXCEEDED', text, { stage: 'admit', effect: 'none' })
}

function lowered(name: string): string {
  return name.startsWith('The ') ? `the ${name.slice(4)}` : name
}

/** The limits of tenants as shares for claims; undefined when all tenants are equal. */
function sharesOf(tenants: TenantsLimits): ClaimOptions['shares'] {
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

/** The slots of each tenant for waiting calls, by principal. */
interface QueueSlots {
  of(tenant: string): CountedSlots
}

const mostTenants = 10_000

function createQueueSlots(
  store: Pick<CallStore, 'waiting'>,
  most: () => number,
  now: () => number = () => performance.now(),
): QueueSlots {
  const tenants = new Map<string, CountedSlots>()
  const forgetIdle = (): void => {
    for (const [tenant, places] of tenants) if (places.idle) tenants.delete(tenant)
  }
  return {
    of(tenant) {
      const found = tenants.get(tenant)
      if (found !== undefined) return found
      if (tenants.size >= mostTenants) forgetIdle()
      const made = createCountedSlots(() => store.waiting(tenant, most() + 1), now)
      tenants.set(tenant, made)
      return made
    },
  }
}

interface AdmissionLimitsParts {
  readonly store: CallStore
  readonly database: Database
  /** With Redis the token buckets are kept there, else in the database. */
  readonly redis: RedisConnections | undefined
  readonly settings: Pick<ServiceSettings, 'tenants' | 'maxQueued'>
}

/** The limits of tenants and of the queue in a running service. */
export interface AdmissionLimits {
  readonly gate: TenantGate
  readonly depth: QueueDepth
  readonly jobs: readonly PeriodicJob[]
}

const tidyMs = 60_000

export function openLimits({ store, database, redis, settings }: AdmissionLimitsParts): AdmissionLimits {
  const buckets: Buckets = redis === undefined ? sqlBuckets(database) : redisBuckets(redis)
  const mostQueued = (): number => settings.maxQueued
  return {
    gate: createTenantGate({ store, buckets, tenants: () => settings.tenants, mostQueued }),
    depth: createQueueDepth(store, mostQueued),
    jobs: [{ name: 'buckets', everyMs: tidyMs, work: buckets.tidy }],
  }
}
