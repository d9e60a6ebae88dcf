import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { refuseUnfit } from './check-config.ts'
import type { LoadedConfig } from './config.ts'
import { refuseOtherFile } from './reload.ts'
import type { ServiceSettings } from './service-settings.ts'
import { type Additions, createSnapshot, type ExecutorEvents, type Snapshot } from './snapshots.ts'

/** Settings that a reload changes; the others are used only at the start. */
const followed = [
  ...(['logLevel', 'maxQueued', 'bodyBytes', 'inlineBytes', 'artifactBytes', 'graceMs', 'retentionMs'] as const),
  ...(['auditRetentionMs', 'callbacks', 'callbackOrigins', 'callbackSecret', 'authentication', 'tenants'] as const),
  ...(['waitingPerTenant', 'waitingPerPrincipal', 'approvals'] as const),
] as const satisfies readonly (keyof ServiceSettings)[]

/** The settings of a running service. */
export interface LiveSettings {
  /** Reloadable members change with the configuration. A component that copies one does not see the change. */
  readonly settings: ServiceSettings
  /** Applies new settings; returns the keys in the file of changed settings that need a restart. */
  follow(next: ServiceSettings): readonly string[]
}

export function liveSettings(first: ServiceSettings): LiveSettings {
  const settings = { ...first }
  return {
    settings,
    follow(next) {
      for (const key of followed) {
        Object.defineProperty(settings, key, { value: next[key], enumerable: true, configurable: true })
      }
      return changedKeys(first, next)
    },
  }
}

/** The configuration of a running service. */
export interface LiveConfiguration {
  readonly settings: ServiceSettings
  /** The configuration in use. */
  readonly latest: LoadedConfig
  /** Reads the configuration and creates its executor; an invalid one rejects, and then the one in use stays. */
  snapshot(additions: Additions): Promise<Snapshot>
}

export interface LiveConfigurationOptions {
  /** Reads the configuration, each time anew. */
  readonly load: () => Promise<LoadedConfig>
  /** The sandboxes of a configuration, which outlive a reload. */
  readonly runtimes: (options: LoadedConfig['options']) => Promise<NonNullable<LoadedConfig['options']['runtimes']>>
  readonly events: ExecutorEvents
  /** Called with each configuration that came into use, and the changed keys that need a restart. */
  readonly used: (config: LoadedConfig, restart: readonly string[]) => void
  readonly signal: AbortSignal
}

/** The first snapshot is that of the configuration that the service started with; later ones are read anew. */
export function liveConfiguration(
  first: LoadedConfig,
  { load, runtimes, events, used, signal }: LiveConfigurationOptions,
): LiveConfiguration {
  const live = liveSettings(first.service)
  let unused: LoadedConfig | undefined = first
  let latest = first
  return {
    settings: live.settings,
    get latest() {
      return latest
    },
    async snapshot(additions) {
      const next = unused ?? (await load())
      unused = undefined
      refuseOtherFile(first.file, next.file)
      const options = { ...next.options, runtimes: await runtimes(next.options) }
      const snapshot = createSnapshot({ ...next, options }, additions, events)
      await refuseUnfit(next, snapshot.executor, signal).catch(async (error: unknown) => {
        await snapshot.executor.close()
        throw error
      })
      // The configuration is valid as a whole only now; from here on all of it is used.
      latest = next
      const owned = isSame(next.options.identity, first.options.identity) ? [] : ['identity']
      used(next, [...live.follow(next.service), ...owned])
      return snapshot
    },
  }
}

/** The keys of changed settings that need a restart, without values, because some are secrets. */
function changedKeys(first: ServiceSettings, next: ServiceSettings): readonly string[] {
  const live: readonly string[] = followed
  const before: { readonly [key: string]: unknown } = { ...first }
  const after: { readonly [key: string]: unknown } = { ...next }
  const keys = new Set([...Object.keys(first), ...Object.keys(next)].filter((key) => !live.includes(key)))
  return [...keys].flatMap((key) => {
    if (isSame(before[key], after[key])) return []
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

/** The settings used to connect. Tenants and permissions are looked up with each session instead. */
function connectionOf(redis: ServiceSettings['brokers']['redis']): object | undefined {
  if (redis === undefined) return undefined
  const { tenant: _tenant, tenants: _tenants, permissions: _permissions, users: _users, ...connection } = redis
  return connection
}

/** Whether two parts of a configuration are deeply equal. */
function isSame(before: unknown, after: unknown): boolean {
  return canonicalJson([before ?? null] as never) === canonicalJson([after ?? null] as never)
}

const topLevel: readonly string[] = ['databaseUrl', 'tracing', 'mcp']

function nameOf(key: string): string {
  if (key === 'data') return 'GANTRY_DATA'
  return topLevel.includes(key) ? key : `service.${key}`
}
