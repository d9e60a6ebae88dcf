import type { ServerResponse } from 'node:http'
import { type Identity, ToolError } from '@gantry/contract'
import type { ServiceSettings } from '../config/service-settings.ts'

/** Limits of the HTTP API, in bytes, milliseconds or pieces. */
export interface HttpLimits {
  readonly bodyBytes: number
  readonly headerBytes: number
  /** The timeout of a request's headers, and of the whole request. */
  readonly headersMs: number
  readonly requestMs: number
  /** The time that a connection stays open without a request. */
  readonly keepAliveMs: number
  /** A tenth of them is reserved for requests that do not wait. */
  readonly connections: number
  /** Connections of one client address, an IPv6 one by its first 64 bits; half of `connections` when absent. */
  readonly connectionsPerAddress?: number
  /** Addresses and networks of many clients, such as proxies, which are not limited by address. */
  readonly sharedAddresses: readonly string[]
  /** The time that a connection stays open without an authenticated request. */
  readonly unauthenticatedMs: number
  /** The limits of streams and waiting requests, of one tenant and of one principal. */
  readonly waitingPerTenant: number
  readonly waitingPerPrincipal: number
  /** The longest wait of a request for the end of a call, and the default. */
  readonly maxWaitMs: number
  readonly waitMs: number
  /** The interval of heartbeats in an event stream. */
  readonly heartbeatMs: number
  /** The interval at which the credential of an open stream is checked. */
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

/** The limits of the settings; those that follow the configuration are read each time. */
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

/** Arguments may be 64 levels deep, and are a few levels below the body of a request. */
export const bodyDepth = 72
export const bodyNodes = 100_000

/**
 * Counts the requests that may take long: streams, waits for the end of a call, and downloads. Each holds one of the
 * limited connections, so that no caller may use them all.
 */
export interface Waiting {
  /**
   * Takes a slot for a request until its response is sent or its client disconnects. Throws RATE_LIMITED when its
   * principal or its tenant is at its limit, or only the connections are left that are reserved for requests that do
   * not wait.
   */
  hold(identity: Identity, response: ServerResponse, scope: { readonly gone: AbortSignal }): void
}

/** The share of all connections that is reserved for requests that do not wait. */
const reservedShare = 0.1
const retryAfterMs = 1_000

type WaitingLimits = Pick<HttpLimits, 'connections' | 'waitingPerTenant' | 'waitingPerPrincipal'>

/** The limits are read for each request, because they follow the configuration. */
export function createWaiting(limits: WaitingLimits): Waiting {
  const held = new Map<string, number>()
  const change = (key: string, by: 1 | -1): void => {
    const count = (held.get(key) ?? 0) + by
    if (count > 0) held.set(key, count)
    else held.delete(key)
  }
  return {
    hold({ tenant, principal }, response, { gone }) {
      // The response of a disconnected client is closed already, and emits no further event.
      gone.throwIfAborted()
      const { connections, waitingPerTenant, waitingPerPrincipal } = limits
      const places = [
        { key: JSON.stringify([tenant, principal]), most: waitingPerPrincipal, whose: 'of this principal' },
        { key: JSON.stringify([tenant]), most: waitingPerTenant, whose: 'of this tenant' },
        { key: '', most: Math.max(1, Math.floor(connections * (1 - reservedShare))), whose: 'of all callers' },
      ]
      const full = places.find(({ key, most }) => (held.get(key) ?? 0) >= most)
      if (full !== undefined) throw crowded(full)
      for (const { key } of places) change(key, 1)
      response.once('close', () => {
        for (const { key } of places) change(key, -1)
      })
    },
  }
}

function crowded({ most, whose }: { readonly most: number; readonly whose: string }): ToolError {
  const message = `${most} streams and waiting requests ${whose} are open already; close some, or send the request without waitMs.`
  return new ToolError('RATE_LIMITED', message, { stage: 'admit', details: { retryAfterMs, scope: 'caller' } })
}
