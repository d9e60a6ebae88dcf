import type { ExecutorOptions, SecretStoreOptions } from '@gantry/core'

/** What a configuration file may say, in any of its forms. */
export type ConfigKey =
  | 'tools'
  | 'backends'
  | 'policy'
  | 'limits'
  | 'secrets'
  | 'secretStore'
  | 'identity'
  | 'format'
  | 'egress'
  | 'safeguards'
  | 'pins'
  | 'runtimes'
  | 'profiles'
  | 'builtins'
  | 'demo'

/** Where to look, and who may stop it. */
export interface ConfigRequest {
  /** Named on the command line; found by itself when absent. */
  readonly file?: string
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
}

/** A configuration, checked and ready for an executor. */
export interface LoadedConfig {
  /** Absent when there is none. */
  readonly file: string | undefined
  readonly options: Pick<ExecutorOptions, Exclude<ConfigKey, 'demo' | 'builtins' | 'profiles' | 'secretStore'>>
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
