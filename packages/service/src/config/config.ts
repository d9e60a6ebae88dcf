import type { Tool } from '@gantry/contract'
import type {
  Backend,
  DefinedTool,
  EgressOptions,
  Embedder,
  HttpOptions,
  SecretSource,
  SecretStoreOptions,
} from '@gantry/core'
import type { GrpcOptions } from '@gantry/grpc'
import type { KnowledgeLimits } from '@gantry/knowledge'
import type { McpOptions } from '@gantry/mcp'
import type { BuiltinOptions, ExecutorOptions, RuntimeOptions, ToolsFolder, ToolsFolderMemory } from '@gantry/tools'
import type { AuthenticationDocument } from './authentication-settings.ts'
import type { Broker, brokerKeys, KafkaSettings, RedisSettings, S3Settings } from './broker-settings.ts'
import type { SecretLocation, SecretStoreLocation } from './secret-sources.ts'
import type { ApprovalSettings, McpSettings, ServiceSettings, TracingSettings } from './service-settings.ts'
import type { TenantsSettings } from './tenant-limits.ts'

/** The keys of a configuration file, in any of its formats. */
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
  | 'engines'
  | 'profiles'
  | 'runtimeServer'
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
  | 'runtimeServer'
  | 'secretStore'
  | (typeof brokerKeys)[number]
  | 'databaseUrl'
  | 'service'
  | 'tenants'
  | 'tracing'
  | 'approvals'

/** Where to look for a configuration, and the signal that stops loading it. */
export interface ConfigRequest {
  /** The file of `--config`; discovered when absent. */
  readonly file?: string
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  /** Whether a module that was loaded before is evaluated again; its imports are not. */
  readonly fresh?: boolean
  /** Results of earlier loads of the folder of tools, so that a file that is broken now keeps its last tools. */
  readonly folderMemory?: ToolsFolderMemory
  /** Keys that are left out, as `/key` or `/key/member`, to find the problems of the others. */
  readonly omit?: ReadonlySet<string>
}

/** A configuration, checked and ready for an executor. */
export interface LoadedConfig {
  /** Undefined when there is no file. */
  readonly file: string | undefined
  /** Digest of the file as it was read; absent when there is no file. */
  readonly digest?: string
  /** Digest of the settings that must be equal in all processes of a service; of secrets too. */
  readonly shared?: string
  /** The plain data that the rest is made of. */
  readonly document?: ConfigDocument
  readonly options: Pick<ExecutorOptions, Exclude<ConfigKey, NotForExecutors>>
  /** Settings of `gantry serve`. */
  readonly service: ServiceSettings
  /** The encrypted store behind `options.secrets`, when there is one. */
  readonly secretStore?: SecretStoreOptions
  /** The data folder of Gantry; absent when there is no file. */
  readonly data?: string
  /** Whether the built-in tools are served. */
  readonly builtins: boolean
  /** Options of the built-in tools. */
  readonly builtinOptions?: BuiltinOptions
  /** Limits of a tenant's knowledge, and the embedder for search by meaning. */
  readonly knowledge?: Partial<KnowledgeLimits> & { readonly embedder?: Embedder }
  /** Whether the demo tools are served too. */
  readonly demo: boolean
  /** Settings of `gantry runtime serve`. */
  readonly runtimeServer?: RuntimeServerSettings
  /** The loaded folder of tools; its tools are part of the options. */
  readonly toolsFolder?: ToolsFolder
  readonly warnings: readonly string[]
}

type BrokerChoice = 'postgres' | Broker

/**
 * The plain data of a configuration, as `configSchema` describes it. Only `readDocument` produces it, so a value of
 * this type is checked.
 */
export interface ConfigDocument
  extends Pick<ExecutorOptions, 'policy' | 'limits' | 'identity' | 'format' | 'safeguards' | 'engines'>,
    Pick<BuiltinOptions, 'sandboxNetwork' | 'httpFetch'> {
  readonly $schema?: string
  readonly egress?: EgressOptions
  readonly demo?: boolean
  readonly builtins?: boolean
  readonly toolsFolder?: string | ToolsFolderLocation
  readonly knowledge?: Partial<KnowledgeLimits>
  readonly secrets?: { readonly [name: string]: SecretLocation }
  readonly secretStore?: boolean | SecretStoreLocation
  readonly pins?: string
  readonly runtimes?: RuntimeOptions
  readonly profiles?: NonNullable<RuntimeOptions['profiles']>
  readonly runtimeServer?: RuntimeServerSettings
  readonly databaseUrl?: string
  readonly service?: Partial<ServiceSettings>
  readonly tenants?: TenantsSettings
  readonly authentication?: AuthenticationDocument
  readonly approvals?: ApprovalSettings
  readonly mcp?: McpSettings
  readonly tracing?: TracingSettings
  readonly transport?: BrokerChoice | readonly BrokerChoice[]
  readonly redisUrl?: string
  readonly kafkaBrokers?: readonly string[]
  readonly redis?: Partial<RedisSettings>
  readonly kafka?: Partial<KafkaSettings>
  readonly s3?: Omit<S3Settings, 'region'> & { readonly region?: string }
}

/** A backend as plain data. An HTTP backend has a `baseUrl`, or takes that of its `openapi` document. */
export type BackendDocument =
  | (McpOptions & { readonly kind: 'mcp' })
  | (GrpcOptions & { readonly kind: 'grpc' })
  | (Omit<HttpOptions, 'baseUrl' | 'tools'> & {
      readonly kind: 'http'
      readonly baseUrl?: string
      /** Tools, or the path of the file that `gantry import openapi` wrote. */
      readonly tools?: string | readonly Tool[]
      /** The path of an OpenAPI document. */
      readonly openapi?: string
    })

type SeparateSettings =
  | 'data'
  | 'databaseUrl'
  | 'brokers'
  | 'authentication'
  | 'mcp'
  | 'tenants'
  | 'tracing'
  | 'approvals'

/** What a configuration module exports: `export default { … } satisfies GantryConfig`. */
export interface GantryConfig extends Omit<ConfigDocument, 'secrets' | 'knowledge' | 'service' | 'redis' | 'kafka'> {
  /** What `defineTool` returns. */
  readonly tools?: readonly DefinedTool[]
  readonly backends?: readonly (Backend | BackendDocument)[]
  readonly secrets?: SecretSource | { readonly [name: string]: SecretLocation }
  readonly knowledge?: Partial<KnowledgeLimits> & { readonly embedder?: Embedder }
  readonly service?: Partial<Omit<ServiceSettings, SeparateSettings>>
  readonly redis?: Partial<Omit<RedisSettings, 'url'>>
  readonly kafka?: Partial<Omit<KafkaSettings, 'brokers'>>
}

/** The folder of tools, and the patterns of tools that are loaded from it. */
export interface ToolsFolderLocation {
  readonly path: string
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
}

/** Settings of `gantry runtime serve`. */
interface RuntimeServerSettings {
  /** Keys of the Gantrys that may use this host; each is text of at least 32 characters, or `secret:name`. */
  readonly keys?: readonly { readonly id: string; readonly key: string }[]
  readonly listen?: string
  readonly port?: number
  /** PEM files. With `caFile` clients must have a certificate of its authorities. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string; readonly caFile?: string }
  /** Sandboxes that may be open at a time. */
  readonly capacity?: number
  /** How long a run is kept for a client whose connection was lost. */
  readonly keepMs?: number
}

const text = { type: 'string', minLength: 1 }

export const runtimeServerSchema = {
  type: 'object',
  properties: {
    keys: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        properties: {
          id: { type: 'string', pattern: '^[A-Za-z0-9_.-]{1,64}$' },
          key: { type: 'string', pattern: '^secret:.|^.{32,512}$' },
        },
        required: ['id', 'key'],
        additionalProperties: false,
      },
    },
    listen: { ...text, maxLength: 255 },
    port: { type: 'integer', minimum: 0, maximum: 65_535 },
    tls: {
      type: 'object',
      properties: { certFile: text, keyFile: text, caFile: text },
      required: ['certFile', 'keyFile'],
      additionalProperties: false,
    },
    capacity: { type: 'integer', minimum: 1, maximum: 10_000 },
    keepMs: { type: 'integer', minimum: 1_000, maximum: 600_000 },
  },
  additionalProperties: false,
}
