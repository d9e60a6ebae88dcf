import { isIPv4, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import type { Issue, JsonObject } from '@gantry/contract'
import type { EgressAllow } from '@gantry/core'
import {
  type AuthenticationSettings,
  authenticationSettings,
  defaultAuthentication,
} from './authentication-settings.ts'
import { type BrokerSettings, brokerKeys, brokerSettings, withFiles } from './broker-settings.ts'
import { type TenantsSettings, tenantsOf } from './tenant-limits.ts'

export type Role = 'api' | 'worker' | 'relay'

/** How the service runs; all of it has a default that suits one machine. */
export interface ServiceSettings {
  readonly host: string
  readonly port: number
  /** Names under which the API may be asked besides its address. */
  readonly hosts: readonly string[]
  /** Origins of web pages that may ask it. */
  readonly origins: readonly string[]
  /** The API speaks TLS with these files, and only that. */
  readonly tls?: TlsSettings
  /** A real PostgreSQL; without it everything is kept in the data folder. */
  readonly databaseUrl?: string
  /** The folder of the embedded database, of artifacts and of what waits for a database that is away. */
  readonly data: string
  readonly roles: readonly Role[]
  /** Calls that run at a time in this process. */
  readonly slots: number
  /** How long a worker that is not heard of keeps its calls. */
  readonly leaseMs: number
  /** A process whose event loop is blocked for so long loses its calls. */
  readonly blockedMs: number
  /** So many workers may die with a call before it is given up. */
  readonly maxDeaths: number
  /** A call whose tool no worker has, in its version and definition, waits for one so long. */
  readonly versionWaitMs: number
  /** With so many calls waiting, new ones are refused. */
  readonly maxQueued: number
  readonly bodyBytes: number
  /** Connections of the API at a time; a tenth of them is kept for requests that do not wait. */
  readonly connections: number
  /** Connections of one client address, half of all when absent. */
  readonly connectionsPerAddress?: number
  /** Addresses and networks of many clients, such as proxies, to which that does not apply. */
  readonly sharedAddresses: readonly string[]
  /** How long a connection stays open on which no request was authenticated. */
  readonly unauthenticatedMs: number
  /** Streams and waiting requests of one tenant, and of one principal, at a time. */
  readonly waitingPerTenant: number
  readonly waitingPerPrincipal: number
  /** What is larger is kept beside the row. */
  readonly inlineBytes: number
  readonly artifactBytes: number
  readonly graceMs: number
  /** How long the outcomes of calls are kept; the audit is kept longer. */
  readonly retentionMs: number
  readonly auditRetentionMs: number
  /** Names of secrets: the first makes the seals of the audit record, all of them verify; none, and a plain hash does. */
  readonly auditSecrets: readonly string[]
  readonly callbackTries: number
  /** Name of the secret that signs callbacks; without it they are signed with a key of this service's own. */
  readonly callbackSecret?: string
  /** Where callbacks may go; without it to every public address that `egress.allow` lets, never to private ones. */
  readonly callbackOrigins?: EgressAllow
  /** Where the results of a tenant's calls go when a call does not say. */
  readonly callbacks: { readonly [tenant: string]: string }
  /** Metrics on a port of their own besides. */
  readonly metricsPort?: number
  /** Where that port is; whoever reaches it reads them without a key. */
  readonly metricsHost: string
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** What this worker is or has; calls of tools with a placement go to workers that have all its labels. */
  readonly labels: { readonly [label: string]: string }
  /** Where outcomes wait while the database is away: a file of this machine, or Redis. */
  readonly spool: 'file' | 'redis'
  readonly brokers: BrokerSettings
  readonly authentication: AuthenticationSettings
  readonly mcp: McpSettings
  /** What is set for each tenant, under `*` for those that are not named. */
  readonly tenants: TenantsSettings
  /** Absent, nothing is traced. */
  readonly tracing?: TracingSettings
  readonly approvals: ApprovalSettings
}

/** Who may decide on calls that need approval. */
export interface ApprovalSettings {
  /**
   * Whether the owner key of the service may decide on its own calls. When absent it may while it is the only key of an
   * embedded service.
   */
  readonly self?: 'never' | 'owner'
}

/** What the MCP endpoint shows, and to whom. */
export interface McpSettings {
  /** Every tool as itself, or seven that find and run all of them. */
  readonly surface?: 'tools' | 'compact'
  /** Only tools of this namespace, under their bare names. */
  readonly namespace?: string
  /** How clients of revisions before 2026-07-28 are served: with a session in memory, or each request for itself. */
  readonly sessions?: 'memory' | 'none'
  /** Where the endpoint is for clients, when a proxy stands before it. */
  readonly url?: string
  /** What its callers must hold. */
  readonly permission?: string
  /** A client that knows tasks gets one for a call that takes longer. */
  readonly taskAfterMs?: number
}

/** Files in PEM; with authorities for clients, whoever has no certificate of one of them is not let in. */
export interface TlsSettings {
  readonly certFile: string
  readonly keyFile: string
  readonly clientCaFile?: string
}

/** Where traces go. */
export interface TracingSettings {
  readonly endpoint: string
  /** Texts, or `secret:name`. */
  readonly headers?: { readonly [name: string]: string }
  /** Which part of the traces that begin here is kept; all of them unless told. */
  readonly sample?: number
  readonly caFile?: string
}

const day = 24 * 3_600_000

export const defaultSettings: Omit<ServiceSettings, 'data'> = {
  host: '127.0.0.1',
  port: 7420,
  hosts: [],
  origins: [],
  roles: ['api', 'worker', 'relay'],
  slots: 64,
  leaseMs: 30_000,
  blockedMs: 300_000,
  maxDeaths: 3,
  versionWaitMs: 600_000,
  maxQueued: 100_000,
  bodyBytes: 1_048_576,
  connections: 2_000,
  sharedAddresses: ['127.0.0.0/8', '::1'],
  unauthenticatedMs: 10_000,
  waitingPerTenant: 1_000,
  waitingPerPrincipal: 500,
  inlineBytes: 65_536,
  artifactBytes: 268_435_456,
  graceMs: 25_000,
  retentionMs: 7 * day,
  auditRetentionMs: 365 * day,
  auditSecrets: [],
  callbackTries: 12,
  callbacks: {},
  logLevel: 'info',
  labels: {},
  spool: 'file',
  brokers: { transports: [] },
  authentication: defaultAuthentication,
  mcp: {},
  tenants: {},
  approvals: {},
  metricsHost: '127.0.0.1',
}

/** What the file says of the service, and the environment over it; both are checked before. Paths begin at the folder. */
export function serviceSettings(document: JsonObject, data: string, folder = '.'): ServiceSettings {
  const { service, databaseUrl, tracing } = document
  const own = (service ?? {}) as JsonObject & Partial<ServiceSettings>
  const url = typeof databaseUrl === 'string' ? { databaseUrl } : {}
  const traces = tracing === undefined ? {} : { tracing: tracing as unknown as TracingSettings }
  const checked = {
    mcp: (document.mcp ?? {}) as McpSettings,
    approvals: (document.approvals ?? {}) as ApprovalSettings,
    tenants: tenantsOf(document.tenants),
    brokers: brokerSettings(document, folder),
    ...(own.tls === undefined ? {} : { tls: withFiles(own.tls, folder) }),
    authentication: authenticationSettings(document, folder),
  }
  return { ...defaultSettings, ...own, ...url, ...traces, ...checked, data }
}

/** What is wrong with the addresses of a configuration: each is an address, or a network as in 10.0.0.0/8. */
export function addressIssues({ service }: JsonObject): Issue[] {
  const { sharedAddresses } = (service ?? {}) as { readonly sharedAddresses?: unknown }
  const given: readonly unknown[] = Array.isArray(sharedAddresses) ? sharedAddresses : []
  return given.flatMap((one, index) => {
    if (typeof one !== 'string') return []
    const [address = '', prefix] = one.split('/', 2)
    const longest = isIPv4(address) ? 32 : isIPv6(address) ? 128 : 0
    const isNetwork = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= longest)
    if (longest > 0 && isNetwork && one.split('/').length <= 2) return []
    const message = 'must be an IP address, or a network such as 10.0.0.0/8'
    return [{ path: `/service/sharedAddresses/${index}`, message }]
  })
}

/** What is left for the executor. */
export function withoutService(document: JsonObject): JsonObject {
  const own: readonly string[] = [
    'service',
    'databaseUrl',
    'tracing',
    'tenants',
    'authentication',
    'approvals',
    'mcp',
    ...brokerKeys,
  ]
  return Object.fromEntries(Object.entries(document).filter(([key]) => !own.includes(key)))
}

/** Where Gantry keeps what it remembers between runs. */
export function dataFolder(folder: string, environment: NodeJS.ProcessEnv): string {
  return resolve(folder, environment.GANTRY_DATA || '.gantry')
}
