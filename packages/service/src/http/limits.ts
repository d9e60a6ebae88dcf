import type { ServiceSettings } from '../config/service-settings.ts'

/** Limits of the HTTP API, in bytes, milliseconds or pieces. */
export interface HttpLimits {
  readonly bodyBytes: number
  readonly headerBytes: number
  /** Time for the headers of a request, and for all of it. */
  readonly headersMs: number
  readonly requestMs: number
  /** How long a connection stays open without a request. */
  readonly keepAliveMs: number
  /** A tenth of them is kept for requests that do not wait. */
  readonly connections: number
  /** Connections of one client address, an IPv6 one by its first 64 bits; half of `connections` when absent. */
  readonly connectionsPerAddress?: number
  /** Addresses and networks of many clients, such as proxies, which are not limited by address. */
  readonly sharedAddresses: readonly string[]
  /** How long a connection stays open on which no request was authenticated. */
  readonly unauthenticatedMs: number
  /** Streams and waiting requests of one tenant, and of one principal, at a time. */
  readonly waitingPerTenant: number
  readonly waitingPerPrincipal: number
  /** How long a request may wait for the end of a call at most, and when it does not say. */
  readonly maxWaitMs: number
  readonly waitMs: number
  /** How often a stream of events says that it is still there. */
  readonly heartbeatMs: number
  /** How often it is looked whether the credential of an open stream still counts. */
  readonly recheckMs: number
}

export const defaultHttpLimits: HttpLimits = {
  bodyBytes: 1_048_576,
  headerBytes: 16_384,
  headersMs: 10_000,
  requestMs: 30_000,
  keepAliveMs: 30_000,
  connections: 2_000,
  sharedAddresses: ['127.0.0.0/8', '::1'],
  unauthenticatedMs: 10_000,
  waitingPerTenant: 1_000,
  waitingPerPrincipal: 500,
  maxWaitMs: 120_000,
  waitMs: 30_000,
  heartbeatMs: 15_000,
  recheckMs: 1_000,
}

/** The limits of the settings; those that follow the configuration are read anew each time. */
export function httpLimits(settings: ServiceSettings): Partial<HttpLimits> {
  const { connections, connectionsPerAddress, sharedAddresses, unauthenticatedMs } = settings
  return {
    connections,
    ...(connectionsPerAddress === undefined ? {} : { connectionsPerAddress }),
    sharedAddresses,
    unauthenticatedMs,
    get bodyBytes() {
      return settings.bodyBytes
    },
    get waitingPerTenant() {
      return settings.waitingPerTenant
    },
    get waitingPerPrincipal() {
      return settings.waitingPerPrincipal
    },
  }
}

/** Arguments may be 64 levels deep, and stand a few levels below the body of a request. */
export const bodyDepth = 72
export const bodyNodes = 100_000
