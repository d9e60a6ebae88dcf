import { connect as connectTcp, isIP, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { EgressTarget } from './egress.ts'
import type { Target } from './target.ts'

export interface SocketOptions {
  readonly tls: EgressTarget['tls']
  readonly tunnel: EgressTarget['tunnel']
  /** For this one attempt. */
  readonly ms: number
  readonly signal: AbortSignal
}

/** Opens a socket to an address that was checked; names are not looked up here. */
export type OpenSocket = (target: Target, address: string, options: SocketOptions) => Promise<Socket>

/** Loaded by the first encrypted connection. */
type Tls = typeof import('node:tls')

/** `ca` is trusted beside the usual certificates. */
export function createOpenSocket(ca: readonly (string | Uint8Array)[]): OpenSocket {
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
  const onAbort = (): void => reject(signal.reason)
  const timer = setTimeout(reject, ms, late)
  signal.addEventListener('abort', onAbort, { once: true })
  // Stays for good: an error without a listener would end the process, and the user of the socket hears 'close' too.
  socket.on('error', reject)
  socket.once('close', () => reject(new Error('The connection closed before it was open.')))
  socket.setNoDelay(true).once(event, () => resolve(socket))
  if (signal.aborted) onAbort()
  const settled = promise.finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
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
