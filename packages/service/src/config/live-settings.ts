import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { ServiceSettings } from './service-settings.ts'

/** Settings that are looked at whenever they are needed; each of the others was used once, when the service started. */
const followed = [
  ...(['logLevel', 'maxQueued', 'bodyBytes', 'inlineBytes', 'artifactBytes', 'graceMs', 'retentionMs'] as const),
  ...(['auditRetentionMs', 'callbacks', 'callbackOrigins', 'callbackSecret', 'authentication', 'tenants'] as const),
  ...(['waitingPerTenant', 'waitingPerPrincipal', 'approvals'] as const),
] as const satisfies readonly (keyof ServiceSettings)[]

/** The settings of a service at work. */
export interface LiveSettings {
  /** Those that follow the configuration are read through to the present one, so that nobody may keep a copy of them. */
  readonly settings: ServiceSettings
  /** From now on the settings are these; answers which of those that changed need a restart, by their keys in the file. */
  follow(next: ServiceSettings): readonly string[]
}

export function liveSettings(first: ServiceSettings): LiveSettings {
  let current = first
  const settings = { ...first }
  for (const key of followed) {
    Object.defineProperty(settings, key, { enumerable: true, get: () => current[key] })
  }
  return {
    settings,
    follow(next) {
      current = next
      return changedKeys(first, next)
    },
  }
}

/** What is not followed and differs; secrets among the values are why only names are told. */
function changedKeys(first: ServiceSettings, next: ServiceSettings): readonly string[] {
  const live: readonly string[] = followed
  const keys = new Set([...Object.keys(first), ...Object.keys(next)].filter((key) => !live.includes(key)))
  return [...keys].flatMap((key) => {
    const [before, after] = [first[key as keyof ServiceSettings], next[key as keyof ServiceSettings]]
    if (isSame(before, after)) return []
    return key === 'brokers' ? changedBrokers(first.brokers, next.brokers) : [nameOf(key)]
  })
}

function changedBrokers(before: ServiceSettings['brokers'], after: ServiceSettings['brokers']): readonly string[] {
  const parts = {
    transport: [before.transports, after.transports],
    kafka: [before.kafka, after.kafka],
    redis: [connectionOf(before.redis), connectionOf(after.redis)],
    s3: [before.s3, after.s3],
  }
  return Object.entries(parts).flatMap(([name, [was, is]]) => (isSame(was, is) ? [] : [name]))
}

/** Whose a session is and what it may do is looked up anew with each; the rest is used to connect. */
function connectionOf(redis: ServiceSettings['brokers']['redis']): object | undefined {
  if (redis === undefined) return undefined
  const { tenant: _tenant, tenants: _tenants, permissions: _permissions, users: _users, ...connection } = redis
  return connection
}

/** Whether two parts of a configuration say the same. */
export function isSame(before: unknown, after: unknown): boolean {
  return canonicalJson([before ?? null] as never) === canonicalJson([after ?? null] as never)
}

const topLevel: readonly string[] = ['databaseUrl', 'tracing', 'mcp']

function nameOf(key: string): string {
  if (key === 'data') return 'GANTRY_DATA'
  return topLevel.includes(key) ? key : `service.${key}`
}
