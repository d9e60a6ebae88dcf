import type { ExecutorOptions, SecretStoreOptions } from '@gantry/core'
import type { brokerKeys } from './broker-settings.ts'
import type { ServiceSettings } from './service-settings.ts'

/** What a configuration file may say, in any of its forms. */
export type ConfigKey =
  | 'tools'
  | 'backends'
  | 'policy'
  | 'limits'
  | 'secrets'
  | 'secretStore'
  | 'identity'
  | 'authentication'
  | 'format'
  | 'egress'
  | 'safeguards'
  | 'pins'
  | 'runtimes'
  | 'profiles'
  | 'builtins'
  | (typeof brokerKeys)[number]
  | 'databaseUrl'
  | 'service'
  | 'tenants'
  | 'tracing'
  | 'demo'

type NotForExecutors =
  | 'authentication'
  | 'demo'
  | 'builtins'
  | 'profiles'
  | 'secretStore'
  | (typeof brokerKeys)[number]
  | 'databaseUrl'
  | 'service'
  | 'tenants'
  | 'tracing'

/** Where to look, and who may stop it. */
export interface ConfigRequest {
  /** Named on the command line; found by itself when absent. */
  readonly file?: string
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  /** Whether a module that was read before is run anew; what it imports is not. */
  readonly fresh?: boolean
}

/** A configuration, checked and ready for an executor. */
export interface LoadedConfig {
  /** Absent when there is none. */
  readonly file: string | undefined
  readonly options: Pick<ExecutorOptions, Exclude<ConfigKey, NotForExecutors>>
  /** How `gantry serve` runs. */
  readonly service: ServiceSettings
  /** The encrypted store that `options.secrets` asks, when there is one. */
  readonly secretStore?: SecretStoreOptions
  /** The folder of what Gantry remembers between runs; absent when there is no file. */
  readonly data?: string
  /** Whether the built-in tools are served. */
  readonly builtins: boolean
  /** Whether the demo tools are served too. */
  readonly demo: boolean
  readonly warnings: readonly string[]
}
