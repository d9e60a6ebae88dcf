import { type ClientHttp2Session, connect } from 'node:http2'
import type { Duplex } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'
import type { GrpcOptions, Place } from './options.ts'

const openMs = 10_000
const mostHeaderBytes = 32_768

/**
 * Opens an HTTP/2 session over a connection of the egress guard, which checks where it leads and encrypts it. It is
 * there when the server has sent its settings, so that no call goes to something that does not speak HTTP/2.
 * Errors: those of the guard, else BACKEND_UNAVAILABLE, because nothing was sent.
 */
export async function openSession(
  host: BackendHost,
  options: GrpcOptions,
  place: Place,
  closing: AbortSignal,
  ended: () => void,
): Promise<ClientHttp2Session> {
  const signal = AbortSignal.any([closing, AbortSignal.timeout(openMs)])
  try {
    const socket = await dial(host, options, place, signal)
    const session = connect(`${place.secure ? 'https' : 'http'}://${place.authority}`, {
      createConnection: () => socket,
      settings: { enablePush: false, maxHeaderListSize: mostHeaderBytes },
    })
    bind(session, socket)
    await settled(session, signal)
    watch(session, host, place, ended)
    return session
  } catch (error) {
    if (ToolError.is(error)) throw error
    throw new ToolError('BACKEND_UNAVAILABLE', `No gRPC connection to ${place.authority} came about.`, { cause: error })
  }
}

async function dial(host: BackendHost, options: GrpcOptions, place: Place, signal: AbortSignal): Promise<Duplex> {
  const { secure, authority } = place
  const origin = `${secure ? 'https' : 'http'}://${authority}`
  const socket = await host.egress.connect({
    owner: `grpc:${options.name}`,
    own: [{ origin, private: options.private === true }],
    host: place.host,
    port: place.port,
    ...(secure ? { tls: await tlsOf(options, host, signal) } : {}),
    signal,
  })
  if (secure && (socket as { readonly alpnProtocol?: unknown }).alpnProtocol !== 'h2') {
    socket.destroy()
    throw new ToolError('BACKEND_UNAVAILABLE', `${authority} does not speak HTTP/2, which gRPC needs.`)
  }
  return socket
}

async function tlsOf({ tls }: GrpcOptions, host: BackendHost, signal: AbortSignal) {
  const { ca, cert, key, serverName } = typeof tls === 'object' ? tls : {}
  const texts = [ca, cert, key].filter((value) => typeof value === 'string')
  const secrets = await fetchSecrets(secretNames(texts), (name) => host.secret(name, signal))
  const filled = (name: 'ca' | 'cert' | 'key', value: string | Uint8Array | undefined) => {
    if (value === undefined) return {}
    return { [name]: typeof value === 'string' ? fillSecrets(value, secrets) : value }
  }
  return {
    ...filled('ca', ca),
    ...filled('cert', cert),
    ...filled('key', key),
    ...(serverName === undefined ? {} : { servername: serverName }),
    alpn: ['h2'],
  }
}

/** A session does not hear of all that befalls its socket, such as a refusal of the certificate that it showed. */
function bind(session: ClientHttp2Session, socket: Duplex): void {
  session.on('error', () => undefined)
  socket.on('error', (error) => {
    session.destroy(error)
    // Node leaves a socket open whose encryption failed after it was set up, and the session then never closes.
    socket.destroy()
  })
  socket.once('close', () => session.destroy())
  if (socket.destroyed) session.destroy(new Error('The connection was closed before it was used.'))
}

/** Waits for the server's settings, which come first on every HTTP/2 connection. */
function settled(session: ClientHttp2Session, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error?: unknown): void => {
      signal.removeEventListener('abort', stop)
      session.destroy()
      reject(error instanceof Error ? error : new Error('The connection was closed before it was used.'))
    }
    const stop = (): void => fail(signal.reason)
    session.once('error', fail).once('close', fail)
    session.once('remoteSettings', () => {
      session.off('error', fail).off('close', fail)
      signal.removeEventListener('abort', stop)
      resolve()
    })
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}

/** Tells when the session takes no more calls, and subscribers that the backend is up or down. */
function watch(session: ClientHttp2Session, host: BackendHost, { authority }: Place, ended: () => void): void {
  session.once('goaway', ended)
  session.once('close', () => {
    ended()
    host.report({ kind: 'down', message: `The connection to ${authority} has ended.` })
  })
  session.unref()
  host.report({ kind: 'up', message: `Connected to ${authority}.` })
}
