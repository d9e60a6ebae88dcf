import type { RedisConnections } from '../brokers/transports/redis/connection.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { CallStore } from '../storage/calls/call-store.ts'
import type { Database } from '../storage/databases/database.ts'
import type { Chore } from '../storage/periodic-jobs.ts'
import type { Buckets } from './buckets/bucket.ts'
import { redisBuckets } from './buckets/redis.ts'
import { sqlBuckets } from './buckets/sql.ts'
import { createTenantGate, type TenantGate } from './limits.ts'
import { createDepthGauge, type DepthGauge } from './queue-depth.ts'

export interface AdmissionLimitsParts {
  readonly store: CallStore
  readonly database: Database
  /** With Redis the token buckets are kept there, else in the database. */
  readonly redis: RedisConnections | undefined
  readonly settings: Pick<ServiceSettings, 'tenants' | 'maxQueued'>
}

/** The limits of tenants and of the queue in a running service. */
export interface AdmissionLimits {
  readonly gate: TenantGate
  readonly depth: DepthGauge
  readonly jobs: readonly Chore[]
}

const tidyMs = 60_000

export function openLimits({ store, database, redis, settings }: AdmissionLimitsParts): AdmissionLimits {
  const buckets: Buckets = redis === undefined ? sqlBuckets(database) : redisBuckets(redis)
  const mostQueued = (): number => settings.maxQueued
  return {
    gate: createTenantGate({ store, buckets, tenants: () => settings.tenants, mostQueued }),
    depth: createDepthGauge(store, mostQueued),
    jobs: [{ name: 'buckets', everyMs: tidyMs, work: buckets.tidy }],
  }
}
