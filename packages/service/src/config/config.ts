import type { Embedder, SecretStoreOptions } from '@gantry/core'
import type { KnowledgeLimits } from '@gantry/knowledge'
import type { BuiltinOptions, ExecutorOptions, ToolsFolder, ToolsFolderMemory } from '@gantry/tools'
import type { brokerKeys } from './broker-settings.ts'
import type { ServiceSettings } from './service-settings.ts'

/** What a configuration file may say, in any of its forms. */
export type ConfigKey =
  | 'tools'
  | 'toolsFolder'
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
  | 'sandboxNetwork'
  | 'httpFetch'
  | 'knowledge'
  | (typeof brokerKeys)[number]
  | 'databaseUrl'
  | 'service'
  | 'tenants'
  | 'tracing'
  | 'approvals'
  | 'demo'

type NotForExecutors =
  | 'toolsFolder'
  | 'authentication'
  | 'demo'
  | 'builtins'
  | 'sandboxNetwork'
  | 'httpFetch'
  | 'knowledge'
  | 'profiles'
  | 'secretStore'
  | (typeof brokerKeys)[number]
  | 'databaseUrl'
  | 'service'
  | 'tenants'
  | 'tracing'
  | 'approvals'

/** Where to look, and who may stop it. */
export interface ConfigRequest {
  /** Named on the command line; found by itself when absent. */
  readonly file?: string
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  /** Whether a module that was read before is run anew; what it imports is not. */
  readonly fresh?: boolean
  /** What the folder of tools gave before, so that a file that is broken now keeps what it gave last. */
  readonly folderMemory?: ToolsFolderMemory
}

/** A configuration, checked and ready for an executor. */
export interface LoadedConfig {
  /** Absent when there is none. */
  readonly file: string | undefined
  /** Of the file, as it was when it was read; absent when there is none. */
  readonly digest?: string
  readonly options: Pick<ExecutorOptions, Exclude<ConfigKey, NotForExecutors>>
  /** How `gantry serve` runs. */
  readonly service: ServiceSettings
  /** The encrypted store that `options.secrets` asks, when there is one. */
  readonly secretStore?: SecretStoreOptions
  /** The folder of what Gantry remembers between runs; absent when there is no file. */
  readonly data?: string
  /** Whether the built-in tools are served. */
  readonly builtins: boolean
  /** How they are made. */
  readonly builtinOptions?: BuiltinOptions
  /** What tenants may keep in the knowledge of a service, and what finds it by its meaning. */
  readonly knowledge?: Partial<KnowledgeLimits> & { readonly embedder?: Embedder }
  /** Whether the demo tools are served too. */
  readonly demo: boolean
  /** What became of the folder of tools; its tools are among the options. */
  readonly toolsFolder?: ToolsFolder
  readonly warnings: readonly string[]
}
