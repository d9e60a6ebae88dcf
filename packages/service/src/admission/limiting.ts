import type { RedisConnections } from '../brokers/transports/redis/connection.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { CallStore, Claim, ClaimOptions } from '../storage/calls/call-store.ts'
import { stillHeld } from '../storage/calls/still-held.ts'
import type { Database } from '../storage/databases/database.ts'
import type { Chore } from '../storage/periodic-jobs.ts'
import type { Worker } from '../worker/worker.ts'
import type { Buckets } from './buckets/bucket.ts'
import { redisBuckets } from './buckets/redis.ts'
import { sqlBuckets } from './buckets/sql.ts'
import { createTenantGate, type TenantGate } from './limits.ts'

export interface LimitingParts {
  readonly store: CallStore
  readonly database: Database
  /** Where there is one, the buckets are there. */
  readonly redis: RedisConnections | undefined
  readonly settings: Pick<ServiceSettings, 'tenants' | 'maxQueued'>
}

/** The limits of tenants in a service at work. */
export interface Limiting {
  readonly gate: TenantGate
  /** How a worker claims now: what it has in hand of each tenant, and what each is to have. */
  claim(claim: ClaimOptions, worker: Pick<Worker, 'busy'> | undefined): ClaimOptions
  /** Claims calls of tenants of which the worker has none in hand, one of each. */
  newcomers(most: number, claim: ClaimOptions, worker: Pick<Worker, 'busy'> | undefined): Promise<readonly Claim[]>
  readonly chores: readonly Chore[]
}

const tidyMs = 60_000

export function createLimiting({ store, database, redis, settings }: LimitingParts): Limiting {
  const buckets: Buckets = redis === undefined ? sqlBuckets(database) : redisBuckets(redis)
  const gate = createTenantGate({
    ...{ store, buckets },
    tenants: () => settings.tenants,
    mostQueued: () => settings.maxQueued,
  })
  const claimNow: Limiting['claim'] = (claim, worker) => {
    const shares = gate.shares()
    const busy = worker === undefined ? {} : { busy: worker.busy }
    return { ...claim, ...busy, ...(shares === undefined ? {} : { shares }) }
  }
  return {
    gate,
    claim: claimNow,
    async newcomers(most, claim, worker) {
      const askedAt = performance.now()
      const claims = await store.claim(most, { ...claimNow(claim, worker), newcomers: true })
      return stillHeld(store, claims, { askedAt, leaseMs: claim.leaseMs })
    },
    chores: [{ name: 'buckets', everyMs: tidyMs, work: buckets.tidy }],
  }
}
