import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { checkedAddresses } from './addresses.ts'
import type { Admitted } from './admit.ts'
import type { EgressTarget } from './egress.ts'
import { codeOf, unreachable } from './failures.ts'
import { createOpenSocket } from './open-socket.ts'
import type { EgressSettings } from './options.ts'
import { crowded } from './places.ts'
import type { Report } from './report.ts'

/** What a connection is opened with, beside where it goes. */
export interface DialOptions {
  readonly tls?: EgressTarget['tls']
  readonly tunnel?: EgressTarget['tunnel']
  readonly signal: AbortSignal
}

/**
 * Opens checked connections: resolves once, checks every address, and dials addresses that were checked.
 * - Errors: EGRESS_DENIED, RATE_LIMITED when too many stay open for as long as connecting may take, otherwise
 *   BACKEND_UNAVAILABLE.
 * - Ownership: the caller destroys the socket; an error of it is nobody's crash.
 */
export interface Dialer {
  dial(admitted: Admitted, options: DialOptions): Promise<Socket>
  /** Ends every connection, open or opening. */
  close(): void
}

/** A name with more addresses than this is tried no further. */
const mostAttempts = 8
/** How long to wait before looking for room again. */
const roomMs = 20

/** `makeRoom` is asked to close idle connections while there are as many as allowed. */
export function createDialer(settings: EgressSettings, report: Report, makeRoom: () => Promise<void>): Dialer {
  const openSocket = createOpenSocket(settings.ca)
  const open = new Map<Socket, string>()
  const opening = new Map<AbortController, string>()
  const closing = new AbortController()

  const full = (origin: string): boolean => {
    const origins = [...open.values(), ...opening.values()]
    if (origins.length >= settings.maxConnections) return true
    return origins.filter((one) => one === origin).length >= settings.maxConnectionsPerOrigin
  }
  const connect = async (admitted: Admitted, options: DialOptions, signal: AbortSignal): Promise<Socket> => {
    const { owner, target } = admitted
    const addresses = (await checkedAddresses(admitted, settings.lookup, report, signal)).slice(0, mostAttempts)
    let failure: unknown
    for (const [index, address] of addresses.entries()) {
      const ms = Math.ceil(settings.connectMs / (addresses.length - index))
      signal.throwIfAborted()
      try {
        const socket = await openSocket(target, address, { tls: options.tls, tunnel: options.tunnel, ms, signal })
        report(owner, target, { outcome: 'connected', address })
        return socket
      } catch (error) {
        report(owner, target, { outcome: 'failed', address, reason: codeOf(signal.aborted ? signal.reason : error) })
        if (signal.aborted) throw signal.reason
        failure = error
      }
    }
    throw unreachable(target, failure)
  }
  return {
    async dial(admitted, options) {
      const { origin } = admitted.target
      const late = new AbortController()
      const tooLate = Object.assign(new Error('The connection took too long.'), { code: 'ETIMEDOUT' })
      const timer = setTimeout(() => late.abort(tooLate), settings.connectMs)
      const signal = AbortSignal.any([closing.signal, options.signal, late.signal])
      try {
        while (full(origin)) {
          if (late.signal.aborted) throw crowded(admitted, report)
          signal.throwIfAborted()
          await makeRoom()
          if (full(origin)) await delay(roomMs)
        }
        opening.set(late, origin)
        signal.throwIfAborted()
        const socket = await connect(admitted, options, signal)
        open.set(socket, origin)
        socket.once('close', () => open.delete(socket))
        return socket
      } catch (error) {
        throw error === tooLate ? unreachable(admitted.target, error) : error
      } finally {
        clearTimeout(timer)
        opening.delete(late)
      }
    },
    close() {
      closing.abort(new ToolError('BACKEND_UNAVAILABLE', 'The way out to the network is closed.', { retryable: false }))
      for (const socket of open.keys()) socket.destroy()
    },
  }
}
