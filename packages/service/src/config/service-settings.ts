import { randomBytes } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { type Identity, type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { EgressAllow } from '@gantry/core'
import {
  type AuthenticationSettings,
  authenticationSettings,
  defaultAuthentication,
} from './authentication-settings.ts'
import { type BrokerSettings, brokerSettings, withFiles } from './broker-settings.ts'
import type { ConfigDocument } from './config.ts'
import type { TenantsSettings } from './tenant-limits.ts'

export type Role = 'api' | 'worker' | 'relay'

/** Settings of the service; the defaults suit one machine. */
export interface ServiceSettings {
  readonly host: string
  readonly port: number
  /** Host names that requests may use, in addition to the address. */
  readonly hosts: readonly string[]
  /** Origins of web pages that may send requests. */
  readonly origins: readonly string[]
  /** With these files the API accepts only TLS. */
  readonly tls?: TlsSettings
  /** A PostgreSQL server; without it the embedded database in the data folder is used. */
  readonly databaseUrl?: string
  /** Folder of the embedded database, of artifacts and of the spool. */
  readonly data: string
  readonly roles: readonly Role[]
  /** Concurrent calls in this process; one tenant gets at most three quarters of them. */
  readonly slots: number
  /** Lease of a call: a worker without a heartbeat loses its calls after it. */
  readonly leaseMs: number
  /** A process whose event loop is blocked for longer loses its calls. */
  readonly blockedMs: number
  /** Number of workers that may be lost with a call before it becomes a dead letter. */
  readonly maxDeaths: number
  /** How long a call waits for a worker that has its tool in the same version and definition. */
  readonly versionWaitMs: number
  /** Number of waiting calls above which new ones are refused. */
  readonly maxQueued: number
  readonly bodyBytes: number
  /** Concurrent connections of the API; a tenth is reserved for requests that do not wait. */
  readonly connections: number
  /** Concurrent connections of one client address; half of all when absent. */
  readonly connectionsPerAddress?: number
  /** Addresses and networks that many clients share, such as proxies; the limit per address does not apply to them. */
  readonly sharedAddresses: readonly string[]
  /** How long a connection without an authenticated request stays open. */
  readonly unauthenticatedMs: number
  /** Concurrent streams and waiting requests of one tenant, and of one principal. */
  readonly waitingPerTenant: number
  readonly waitingPerPrincipal: number
  /** Payloads and results above this size are stored as artifacts. */
  readonly inlineBytes: number
  readonly artifactBytes: number
  readonly graceMs: number
  /** How long outcomes of calls are kept. */
  readonly retentionMs: number
  readonly auditRetentionMs: number
  /** Names of secrets for seals of the audit log: the first signs, all verify; without any, seals are plain hashes. */
  readonly auditSecrets: readonly string[]
  readonly callbackTries: number
  /** Name of the secret that signs callbacks; without it a generated key of this service does. */
  readonly callbackSecret?: string
  /** Origins that callbacks may reach; without it, every public address that `egress.allow` allows. */
  readonly callbackOrigins?: EgressAllow
  /** Callback URL of a tenant's calls that name none. */
  readonly callbacks: { readonly [tenant: string]: string }
  /** An additional port for metrics. */
  readonly metricsPort?: number
  /** Host of that port, where metrics need no key. */
  readonly metricsHost: string
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** Whether the log is also kept in the data folder, for `gantry logs`. */
  readonly logFile: boolean
  /** Labels of this worker; a tool with a placement runs only on workers that have all its labels. */
  readonly labels: { readonly [label: string]: string }
  /** Where outcomes are spooled while the database is unavailable. */
  readonly spool: 'file' | 'redis'
  readonly brokers: BrokerSettings
  readonly authentication: AuthenticationSettings
  readonly mcp: McpSettings
  /** Settings by tenant; `*` is for tenants that are not named. */
  readonly tenants: TenantsSettings
  /** Tracing is off when absent. */
  readonly tracing?: TracingSettings
  readonly approvals: ApprovalSettings
}

/** The identities that may decide on calls that need approval. */
export interface ApprovalSettings {
  /**
   * Whether the owner key of the service may decide on its own calls. When absent it may while it is the only key of an
   * embedded service.
   */
  readonly self?: 'never' | 'owner'
  /** Informed of each approval that is requested, decided or expired. */
  readonly webhook?: ApprovalWebhook
  /** Where a person can decide: an address in which `{id}` stands for the approval. */
  readonly link?: string
}

export interface ApprovalWebhook {
  readonly url: string
  /** Name of the secret that signs its messages; without it the key of callbacks does. */
  readonly secret?: string
  /** Whether the URL may resolve to a private address. */
  readonly private?: boolean
}

/** Settings of the MCP endpoint. */
export interface McpSettings {
  /** `tools` lists every tool; `compact` lists seven tools that find and run all others. */
  readonly surface?: 'tools' | 'compact'
  /** Only tools of this namespace, under their bare names. */
  readonly namespace?: string
  /** Clients of revisions before 2026-07-28 get a session in memory, or are served statelessly. */
  readonly sessions?: 'memory' | 'none'
  /** Public URL of the endpoint, when it is behind a proxy. */
  readonly url?: string
  /** Permission that callers need. */
  readonly permission?: string
  /** A call that takes longer becomes a task, for clients that support tasks. */
  readonly taskAfterMs?: number
}

/** PEM files. With `clientCaFile`, clients need a certificate of these authorities. */
export interface TlsSettings {
  readonly certFile: string
  readonly keyFile: string
  readonly clientCaFile?: string
}

/** The collector of traces. */
export interface TracingSettings {
  readonly endpoint: string
  /** Plain texts, or `secret:name`. */
  readonly headers?: { readonly [name: string]: string }
  /** Share of new traces that is sampled, from 0 to 1; all by default. */
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
  slots: 88,
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
  logFile: true,
  labels: {},
  spool: 'file',
  brokers: { transports: [] },
  authentication: defaultAuthentication,
  mcp: {},
  tenants: {},
  approvals: {},
  metricsHost: '127.0.0.1',
}

/** The service settings of a checked document. Paths are resolved from `folder`. */
export function serviceSettings(document: ConfigDocument, data: string, folder = '.'): ServiceSettings {
  const { service: own = {}, databaseUrl, tracing, mcp = {}, approvals = {}, tenants = {} } = document
  return {
    ...defaultSettings,
    ...own,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    ...(tracing === undefined ? {} : { tracing }),
    ...(own.tls === undefined ? {} : { tls: withFiles(own.tls, folder) }),
    mcp,
    approvals,
    tenants,
    brokers: brokerSettings(document, folder),
    authentication: authenticationSettings(document.authentication, folder),
    data,
  }
}

/** Invalid `sharedAddresses`: each must be an IP address or a network such as 10.0.0.0/8. */
export function addressIssues({ service }: JsonObject): Issue[] {
  const { sharedAddresses } = isObject(service) ? service : {}
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

/** The executor options of a document. */
export function executorPart(
  document: ConfigDocument,
): Pick<ConfigDocument, 'policy' | 'limits' | 'identity' | 'format' | 'egress' | 'safeguards' | 'engines'> {
  const { policy, limits, identity, format, egress, safeguards, engines } = document
  return {
    ...(policy === undefined ? {} : { policy }),
    ...(limits === undefined ? {} : { limits }),
    ...(identity === undefined ? {} : { identity }),
    ...(format === undefined ? {} : { format }),
    ...(egress === undefined ? {} : { egress }),
    ...(safeguards === undefined ? {} : { safeguards }),
    ...(engines === undefined ? {} : { engines }),
  }
}

/** The data folder: GANTRY_DATA, or `.gantry`. */
export function dataFolder(folder: string, environment: NodeJS.ProcessEnv): string {
  return resolve(folder, environment.GANTRY_DATA || '.gantry')
}

/** An embedded database belongs to one process, which must have every role. */
export function refuseMissingRole({ databaseUrl, roles }: ServiceSettings): void {
  const missing = (['api', 'worker'] as const).find((role) => !roles.includes(role))
  if (databaseUrl !== undefined || missing === undefined) return
  const message = `Without a databaseUrl one process does everything, but the role ${missing} is missing; set DATABASE_URL to divide the roles.`
  const issues = [{ path: '/service/roles', message: `lacks ${missing}` }]
  throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
}

/** Identity used when the configuration names none. */
export const owner: Identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

/** A name that no other process has. */
export function workerName(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`
}
