import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { SecureContext } from 'node:tls'
import { ToolError } from '@gantry/contract'
import { onAbort } from '../resilience/abort.ts'
import { checkedAddresses } from './addresses.ts'
import type { Admitted, Report } from './admit.ts'
import { tooManyConnections } from './connection-slots.ts'
import type { EgressTarget } from './egress.ts'
import { codeOf, unreachable } from './failures.ts'
import type { EgressSettings } from './options.ts'
import type { Target } from './target.ts'

/** What a connection is opened with, beside where it goes. */
interface DialOptions {
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
          if (late.signal.aborted) throw tooManyConnections(admitted, report)
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

interface SocketOptions {
  readonly tls: EgressTarget['tls']
  readonly tunnel: EgressTarget['tunnel']
  /** For this one attempt. */
  readonly ms: number
  readonly signal: AbortSignal
}

/** Opens a socket to an address that was checked; names are not looked up here. */
type OpenSocket = (target: Target, address: string, options: SocketOptions) => Promise<Socket>

/** Loaded by the first encrypted connection. */
type Tls = typeof import('node:tls')

/** `ca` is trusted beside the usual certificates. */
function createOpenSocket(ca: readonly (string | Uint8Array)[]): OpenSocket {
  // Made once, because reading all certificates takes a while.
  let usual: SecureContext | undefined

  const usualContext = ({ createSecureContext, getCACertificates }: Tls): SecureContext => {
    const trusted =
      ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca.map((one) => Buffer.from(one))] }
    usual ??= createSecureContext({ minVersion: 'TLSv1.2', ...trusted })
    return usual
  }
  return async ({ scheme, host, port }, address, { tls, tunnel, ms, signal }) => {
    if (scheme === 'http' || tunnel === true) return ready(connectTcp({ host: address, port }), 'connect', ms, signal)
    const library = await import('node:tls')
    const servername = tls?.servername ?? host
    const socket = library.connect({
      host: address,
      port,
      // A certificate for an address is compared with the address that is dialled, which is the same.
      ...(isIP(servername) === 0 ? { servername } : {}),
      ALPNProtocols: [...(tls?.alpn ?? ['http/1.1'])],
      rejectUnauthorized: true,
      secureContext: ownContext(library, tls) ?? usualContext(library),
    })
    return ready(socket, 'secureConnect', ms, signal)
  }
}

/** Waits until a socket can be written to; destroys it when that takes too long, fails or is no longer wanted. */
function ready<S extends Socket>(
  socket: S,
  event: 'connect' | 'secureConnect',
  ms: number,
  signal: AbortSignal,
): Promise<S> {
  const { promise, resolve, reject } = Promise.withResolvers<S>()
  socket.setNoDelay(true)
  const late = Object.assign(new Error('The connection took too long.'), { code: 'ETIMEDOUT' })
  const timer = setTimeout(reject, ms, late)
  // Stays for good: an error without a listener would end the process, and the user of the socket hears 'close' too.
  socket.on('error', reject)
  socket.once('close', () => reject(new Error('The connection closed before it was open.')))
  socket.setNoDelay(true).once(event, () => resolve(socket))
  const leave = onAbort(signal, () => reject(signal.reason))
  const settled = promise.finally(() => {
    clearTimeout(timer)
    leave()
  })
  settled.catch(() => socket.destroy())
  return settled
}

/** What a connection brings itself: its `ca` takes the place of the usual certificates. */
function ownContext({ createSecureContext }: Tls, tls: EgressTarget['tls']): SecureContext | undefined {
  if (tls?.ca === undefined && tls?.cert === undefined && tls?.key === undefined) return undefined
  const buffer = (value: string | Uint8Array | undefined): Buffer | undefined =>
    value === undefined ? undefined : Buffer.from(value)
  const own = { ca: buffer(tls.ca), cert: buffer(tls.cert), key: buffer(tls.key) }
  return createSecureContext({ minVersion: 'TLSv1.2', ...own })
}
