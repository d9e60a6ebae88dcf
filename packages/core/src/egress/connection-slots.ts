import { ToolError } from '@gantry/contract'
import { createSlots, type Release } from '../resilience/slots.ts'
import type { Admitted, Report } from './admit.ts'
import type { EgressSettings } from './options.ts'

export interface ConnectionSlotOptions {
  readonly tenant?: string | undefined
  readonly signal: AbortSignal
  /** How long to wait for a place of the origin; as long as the signal lets it when absent. */
  readonly originMs?: number
}

/**
 * Who may use a connection: so many of one origin and so many in all, and tenants take turns, which the HTTP client's own
 * queue does not know of. Once a second tenant has asked, a tenant has three quarters of both at most, so that servers that
 * never answer hold up the tenant that asks them and no other.
 *
 * A place is held for as long as a connection is in use: by a request until its response has ended, by a raw connection
 * until it closes. A stream that stays open therefore keeps its place; what the service opens for all tenants (the event
 * stream of an MCP server, a gRPC session) has no tenant, waits its turn and is not held to a share. No holder of a place
 * in all waits for one of an origin, so that none waits for itself.
 */
export interface ConnectionSlots {
  /**
   * A place at once where one is free, else a promise of it; whoever has it gives it back once it is not used any more.
   * Rejects with the signal's reason, or with RATE_LIMITED when the wait was too long; nothing is held then.
   */
  take(admitted: Admitted, options: ConnectionSlotOptions): Release | Promise<Release>
}

const shareOfTenant = 0.75
/** The one key of places in all. */
const everywhere = ''

export function createConnectionSlots(settings: EgressSettings, report: Report): ConnectionSlots {
  const { maxConnections, maxConnectionsPerOrigin, connectMs } = settings
  const ofOrigin = createSlots({ share: shareOfTenant })
  const inAll = createSlots({ share: shareOfTenant })

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

/** Why nothing more goes out for now. */
export function tooManyConnections({ owner, target }: Admitted, report: Report): ToolError {
  report(owner, target, { outcome: 'refused', reason: 'too many connections' })
  const details = { retryAfterMs: 1_000 }
  return new ToolError('RATE_LIMITED', `Too many connections are open for one more to ${target.origin}.`, { details })
}
