import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import type { BackendHost } from '../backend.ts'
import type { Authorizer } from './authorizer.ts'
import { boundedResponse } from './bounded.ts'
import type { Link } from './link.ts'
import type { Sdk } from './sdk.ts'
import { fillAll } from './secrets.ts'
import type { RemotePlace } from './settings.ts'

const leaveMs = 1_000

export interface RemoteLinkOptions {
  readonly place: RemotePlace
  readonly maxResponseBytes: number
  readonly sdk: Sdk
  readonly host: BackendHost
  /** Through the guard. */
  readonly fetch: typeof fetch
  readonly authorizer: Authorizer | undefined
  /** Ends with the backend. */
  readonly life: AbortSignal
}

/** A line to a server that speaks streamable HTTP; reconnecting a broken stream is the SDK's part. */
export function remoteLink(options: RemoteLinkOptions): Link {
  const { sdk, place, authorizer } = options
  const transport = new sdk.StreamableHTTPClientTransport(place.url, {
    fetch: serverFetch(options),
    ...(authorizer === undefined ? {} : { authProvider: authorizer.provider }),
    onInsufficientScope: 'throw',
    reconnectionOptions: {
      initialReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 1.5,
      maxReconnectionDelay: 30_000,
      maxRetries: 10,
    },
  })
  const answered = endOpenRequests(transport)
  return { transport, ended: () => undefined, answered, leave: () => leave(transport) }
}

/** Lets the server forget the session, if that is quick. */
async function leave(transport: { terminateSession(): Promise<void> }): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, leaveMs)
  await Promise.race([transport.terminateSession().catch(() => undefined), promise])
  clearTimeout(timer)
}

/** Adds the host's headers, here and not in the SDK, which would also send them to an authorization server. */
function serverFetch({ place, host, fetch, maxResponseBytes, life }: RemoteLinkOptions): typeof globalThis.fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers)
    const own = await fillAll(place.headers, (name) => host.secret(name, init?.signal ?? life))
    for (const [name, value] of Object.entries(own)) headers.set(name, value)
    return boundedResponse(await fetch(input, { ...init, headers }), maxResponseBytes)
  }
}

/**
 * Ends requests that the SDK leaves open: one whose stream ended without the answer would wait until the call's time is
 * over, and one that was cancelled would, before 2026-07-28, keep its connection until the server lets go. Returns what
 * is to hear of answers.
 */
function endOpenRequests(transport: Transport): (id: unknown) => void {
  const open = new Map<unknown, AbortController>()
  const send = transport.send.bind(transport)
  transport.send = async (message: JSONRPCMessage, options: TransportSendOptions = {}) => {
    if (!('method' in message)) return send(message, options)
    if (!('id' in message)) {
      await send(message, options)
      if (message.method === 'notifications/cancelled') open.get(message.params?.requestId)?.abort()
      return
    }
    const { id } = message
    const stop = new AbortController()
    const { requestSignal, onRequestStreamEnd } = options
    open.set(id, stop)
    await send(message, {
      ...options,
      requestSignal: requestSignal === undefined ? stop.signal : AbortSignal.any([requestSignal, stop.signal]),
      onRequestStreamEnd: () => {
        onRequestStreamEnd?.()
        // For a request that has its answer this is one answer too many, which the SDK ignores.
        if (typeof id === 'number') transport.onmessage?.({ jsonrpc: '2.0', id, error: noAnswer })
      },
    }).catch((error: unknown) => {
      open.delete(id)
      throw error
    })
  }
  return (id) => void open.delete(id)
}

const noAnswer = { code: -32_000, message: 'The server closed the stream without an answer.' }
