import { ToolError } from '@gantry/contract'
import { createSlots, ownShare, type Release } from '../resilience/slots.ts'
import type { Admitted, Report } from './admit.ts'
import type { EgressSettings } from './options.ts'

export interface ConnectionSlotOptions {
  readonly tenant?: string | undefined
  readonly signal: AbortSignal
  /** How long to wait for a slot of the origin; until the signal aborts when absent. */
  readonly originMs?: number
}

/**
 * Limits the connections in use, per origin and in total. Waiting tenants are served round-robin, which the queue of the
 * HTTP client cannot do. A tenant holds at most three quarters of both limits, so that a server that never answers blocks
 * only the tenant that called it. A limit of one slot is not divided.
 *
 * A request holds its slot until its response has ended, a raw connection until it closes; an open stream keeps its
 * slot. Connections that serve all tenants (the event stream of an MCP server, a gRPC session) have no tenant: they wait
 * in the same queue and have no share limit. A request takes the slot of its origin before the total slot, so that no
 * two requests deadlock.
 */
export interface ConnectionSlots {
  /**
   * The release of a slot, at once when one is free, otherwise as a promise. The holder calls it when the connection is
   * no longer in use. Rejects with the reason of the signal, or with RATE_LIMITED after the longest wait; no slot is held
   * then.
   */
  take(admitted: Admitted, options: ConnectionSlotOptions): Release | Promise<Release>
}

/** The key of the total limit. */
const everywhere = ''

export function createConnectionSlots(settings: EgressSettings, report: Report): ConnectionSlots {
  const { maxConnections, maxConnectionsPerOrigin, connectMs } = settings
  const ofOrigin = createSlots({ share: ownShare })
  const inAll = createSlots({ share: ownShare })

  const within = async (
    ms: number | undefined,
    { signal }: ConnectionSlotOptions,
    admitted: Admitted,
    take: (signal: AbortSignal) => Promise<Release>,
  ): Promise<Release> => {
    if (ms === undefined) return take(signal)
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(tooManyConnections(admitted, report)), ms)
    try {
      return await take(AbortSignal.any([signal, late.signal]))
    } finally {
      clearTimeout(timer)
    }
  }
  const wait = async (
    origin: Release | undefined,
    admitted: Admitted,
    options: ConnectionSlotOptions,
  ): Promise<Release> => {
    const { tenant, originMs } = options
    const key = admitted.target.origin
    const leaveOrigin =
      origin ??
      (await within(originMs, options, admitted, (signal) =>
        ofOrigin.take(key, maxConnectionsPerOrigin, signal, tenant),
      ))
    try {
      const leaveAll = await within(connectMs, options, admitted, (signal) =>
        inAll.take(everywhere, maxConnections, signal, tenant),
      )
      return both(leaveOrigin, leaveAll)
    } catch (error) {
      leaveOrigin()
      throw error
    }
  }
  return {
    take(admitted, options) {
      const origin = ofOrigin.takeNow(admitted.target.origin, maxConnectionsPerOrigin, options.tenant)
      const all = origin === undefined ? undefined : inAll.takeNow(everywhere, maxConnections, options.tenant)
      return origin === undefined || all === undefined ? wait(origin, admitted, options) : both(origin, all)
    },
  }
}

function both(origin: Release, all: Release): Release {
  return () => {
    all()
    origin()
  }
}

/** Reports and returns RATE_LIMITED for a connection without a free slot. */
export function tooManyConnections({ owner, target }: Admitted, report: Report): ToolError {
  report(owner, target, { outcome: 'refused', reason: 'too many connections' })
  const details = { retryAfterMs: 1_000 }
  return new ToolError('RATE_LIMITED', `No connection slot is free for ${target.origin}.`, { details })
}
