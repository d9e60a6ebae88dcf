import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { SecureContext } from 'node:tls'
import { ToolError } from '@gantry/contract'
import { onAbort } from '../resilience/abort.ts'
import type { Admitted, Report } from './admit.ts'
import { tooManyConnections } from './connection-slots.ts'
import type { EgressTarget } from './egress.ts'
import { codeOf, unreachable } from './failures.ts'
import type { EgressSettings } from './options.ts'
import { checkedAddresses } from './private-addresses.ts'
import type { Target } from './target.ts'

/** Options of a connection. */
interface DialOptions {
  readonly tls?: EgressTarget['tls']
  readonly tunnel?: EgressTarget['tunnel']
  readonly signal: AbortSignal
}

/**
 * Opens checked connections: resolves the name once, checks every address, and dials only checked addresses.
 * - Errors: EGRESS_DENIED, RATE_LIMITED when the connection limit stays reached for `connectMs`, otherwise
 *   BACKEND_UNAVAILABLE.
 * - Ownership: the caller destroys the socket; an error event of the socket does not crash the process.
 */
export interface Dialer {
  dial(admitted: Admitted, options: DialOptions): Promise<Socket>
  /** Ends every connection, open or opening. */
  close(): void
}

/** Most addresses of a name that are tried. */
const mostAttempts = 8
/** How often to check the connection limit while waiting for it. */
const recheckMs = 20

/** `closeIdle` closes idle connections; it is called while the connection limit is reached. */
export function createDialer(settings: EgressSettings, report: Report, closeIdle: () => Promise<void>): Dialer {
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
          await closeIdle()
          if (full(origin)) await delay(recheckMs)
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
      closing.abort(new ToolError('BACKEND_UNAVAILABLE', 'The egress guard is closed.', { retryable: false }))
      for (const socket of open.keys()) socket.destroy()
    },
  }
}

interface SocketOptions {
  readonly tls: EgressTarget['tls']
  readonly tunnel: EgressTarget['tunnel']
  /** Timeout of this attempt. */
  readonly ms: number
  readonly signal: AbortSignal
}

/** Opens a socket to a checked address; does no DNS lookup. */
type OpenSocket = (target: Target, address: string, options: SocketOptions) => Promise<Socket>

/** Loaded by the first TLS connection. */
type Tls = typeof import('node:tls')

/** `ca` is trusted in addition to the default certificates. */
function createOpenSocket(ca: readonly (string | Uint8Array)[]): OpenSocket {
  // Cached, because parsing all certificates is slow.
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
      // For an IP address Node verifies the certificate against the dialled address, which is the same.
      ...(isIP(servername) === 0 ? { servername } : {}),
      ALPNProtocols: [...(tls?.alpn ?? ['http/1.1'])],
      rejectUnauthorized: true,
      secureContext: ownContext(library, tls) ?? usualContext(library),
    })
    return ready(socket, 'secureConnect', ms, signal)
  }
}

/** Waits until a socket is connected; destroys it on timeout, error or abort. */
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
  // Never removed: an error without a listener would crash the process. The owner of the socket also gets 'close'.
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

/** The TLS context of a connection with its own certificates: its `ca` replaces the default certificates. */
function ownContext({ createSecureContext }: Tls, tls: EgressTarget['tls']): SecureContext | undefined {
  if (tls?.ca === undefined && tls?.cert === undefined && tls?.key === undefined) return undefined
  const buffer = (value: string | Uint8Array | undefined): Buffer | undefined =>
    value === undefined ? undefined : Buffer.from(value)
  const own = { ca: buffer(tls.ca), cert: buffer(tls.cert), key: buffer(tls.key) }
  return createSecureContext({ minVersion: 'TLSv1.2', ...own })
}
