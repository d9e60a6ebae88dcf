import { type ClientHttp2Session, connect, constants } from 'node:http2'
import type { Duplex } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { fetchSecrets, fillSecrets, secretNames } from '@gantry/core/internal/ids/secret-reference'
import { onAbort, unlessAborted } from '@gantry/core/internal/resilience/abort'
import { type CallRequest, exchange } from './exchange.ts'
import type { Endpoint, GrpcOptions } from './options.ts'

/**
 * One connection to a gRPC server at a time, shared by all calls.
 *
 * States: idle, opening, open, closed. The channel starts idle.
 * - idle → opening: a call arrives.
 * - opening → open: the server has sent its settings. Calls that arrived meanwhile share the attempt.
 * - opening → idle: the attempt fails; its calls fail, and the next call opens again.
 * - open → idle: the connection ends, or the server sends GOAWAY; running calls go on where they can.
 * - any → closed: `close`. Running calls end until its signal aborts; later calls are refused.
 */
export interface Channel {
  /** Sends one message and gives the answers as they come; a reader that waits makes the server wait. */
  call(request: CallRequest): AsyncGenerator<Buffer, void>
  /** Lets running calls end until the signal aborts, then cuts them off. */
  close(signal: AbortSignal): Promise<void>
}

/** Opens one session; `ended` is called when it takes no more calls. */
type OpenSession = (signal: AbortSignal, ended: () => void) => Promise<ClientHttp2Session>

const pingMs = 10_000

export function createChannel(open: OpenSession): Channel {
  const closing = new AbortController()
  const running = new WeakMap<ClientHttp2Session, number>()
  let opening: Promise<ClientHttp2Session> | undefined

  const session = async (signal: AbortSignal): Promise<ClientHttp2Session> => {
    while (true) {
      if (closing.signal.aborted) throw closing.signal.reason
      const attempt = opening ?? begin()
      const used = await unlessAborted(attempt, signal)
      if (!used.closed && !used.destroyed) return used
      // The session has ended, and its events have not been emitted yet.
      leave(attempt)
    }
  }
  const begin = (): Promise<ClientHttp2Session> => {
    const attempt = open(closing.signal, () => leave(attempt))
    attempt.catch(() => leave(attempt))
    opening = attempt
    return attempt
  }
  const leave = (attempt: Promise<ClientHttp2Session>): void => {
    if (opening === attempt) opening = undefined
  }
  /** An idle connection must not keep the process alive, a busy one must. */
  const count = (used: ClientHttp2Session, change: 1 | -1): void => {
    const calls = (running.get(used) ?? 0) + change
    running.set(used, calls)
    if (used.destroyed) return
    if (calls === 0) used.unref()
    else used.ref()
  }
  return {
    async *call(request) {
      const { signal } = request
      signal.throwIfAborted()
      const used = await session(signal)
      count(used, 1)
      try {
        yield* exchange(used, request)
      } finally {
        count(used, -1)
        if (signal.aborted) probe(used)
      }
    },
    async close(signal) {
      const last = opening
      closing.abort(new ToolError('BACKEND_UNAVAILABLE', 'The gRPC backend is closed.', { retryable: false }))
      const used = await last?.catch(() => undefined)
      if (used === undefined || used.destroyed) return
      await ended(used, signal)
    },
  }
}

/** Pings the server, because later calls would wait on a dead connection, which looks like a slow server. */
function probe(session: ClientHttp2Session): void {
  if (session.destroyed || session.closed) return
  const timer = setTimeout(() => session.destroy(new Error('The server does not answer a ping.')), pingMs)
  timer.unref()
  const sent = session.ping(() => clearTimeout(timer))
  if (!sent) clearTimeout(timer)
}

/** Resolves when the session has closed; what still runs when the signal aborts is cut off. */
function ended(session: ClientHttp2Session, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cut = (): void => session.destroy(undefined, constants.NGHTTP2_CANCEL)
    session.once('close', () => {
      leave()
      resolve()
    })
    session.close()
    const leave = onAbort(signal, cut)
  })
}

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
  endpoint: Endpoint,
  closing: AbortSignal,
  ended: () => void,
): Promise<ClientHttp2Session> {
  const signal = AbortSignal.any([closing, AbortSignal.timeout(openMs)])
  try {
    const socket = await dial(host, options, endpoint, signal)
    const session = connect(`${endpoint.secure ? 'https' : 'http'}://${endpoint.authority}`, {
      createConnection: () => socket,
      settings: { enablePush: false, maxHeaderListSize: mostHeaderBytes },
    })
    bind(session, socket)
    await settled(session, signal)
    watch(session, host, endpoint, ended)
    return session
  } catch (error) {
    if (ToolError.is(error)) throw error
    throw new ToolError(
      'BACKEND_UNAVAILABLE',
      `The gRPC connection to ${endpoint.authority} could not be established.`,
      {
        cause: error,
      },
    )
  }
}

async function dial(host: BackendHost, options: GrpcOptions, endpoint: Endpoint, signal: AbortSignal): Promise<Duplex> {
  const { secure, authority } = endpoint
  const origin = `${secure ? 'https' : 'http'}://${authority}`
  const socket = await host.egress.connect({
    owner: `grpc:${options.name}`,
    own: [{ origin, private: options.private === true }],
    host: endpoint.host,
    port: endpoint.port,
    ...(secure ? { tls: await tlsOf(options, host, signal) } : {}),
    signal,
  })
  if (secure && !('alpnProtocol' in socket && socket.alpnProtocol === 'h2')) {
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

/** A session does not see every failure of its socket, such as the server's refusal of a client certificate. */
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
    let leave = (): void => undefined
    const fail = (error?: unknown): void => {
      leave()
      session.destroy()
      reject(error instanceof Error ? error : new Error('The connection was closed before it was used.'))
    }
    session.once('error', fail).once('close', fail)
    session.once('remoteSettings', () => {
      session.off('error', fail).off('close', fail)
      leave()
      resolve()
    })
    leave = onAbort(signal, () => fail(signal.reason))
  })
}

/** Calls `ended` when the session takes no more calls, and reports the backend up or down. */
function watch(session: ClientHttp2Session, host: BackendHost, { authority }: Endpoint, ended: () => void): void {
  session.once('goaway', ended)
  session.once('close', () => {
    ended()
    host.report({ kind: 'down', message: `The connection to ${authority} has ended.` })
  })
  session.unref()
  host.report({ kind: 'up', message: `Connected to ${authority}.` })
}
