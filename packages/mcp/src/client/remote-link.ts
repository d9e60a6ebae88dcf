import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { createRedactor } from '@gantry/core/internal/json/redact'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import type { Authorizer } from './authorizer.ts'
import { boundedResponse } from './bounded-response.ts'
import type { Link, Sdk } from './sdk.ts'
import { fillAll, type RemotePlace } from './settings.ts'

const leaveMs = 1_000
/** Refusals that the SDK answers with a new token. */
const forToken: ReadonlySet<number> = new Set([401, 403])

interface RemoteLinkOptions {
  /** Named in messages. */
  readonly server: string
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

/** A line to a server that speaks streamable HTTP; taking a stream up again that ended early is the SDK's part. */
export function remoteLink(options: RemoteLinkOptions): Link {
  const { server, sdk, place, authorizer } = options
  let lost: string | undefined
  const fetch = watched(serverFetch(options), {
    reached: () => {
      lost = undefined
    },
    unreachable: (reason) => {
      lost = reason
    },
    notResumed: (eventId) => {
      if (requests.notResumed(eventId)) lost = `The connection to the MCP server ${server} broke.`
    },
  })
  const transport = new sdk.StreamableHTTPClientTransport(place.url, {
    fetch,
    ...(authorizer === undefined ? {} : { authProvider: authorizer.provider }),
    onInsufficientScope: 'throw',
    reconnectionOptions: {
      initialReconnectionDelay: 100,
      reconnectionDelayGrowFactor: 2,
      maxReconnectionDelay: 30_000,
      maxRetries: 10,
    },
  })
  const requests: OpenRequests = openRequests(transport)
  return {
    transport,
    ended: () => undefined,
    lost: () => lost,
    answered: requests.answered,
    leave: () => leave(transport),
  }
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
    const secrets: string[] = []
    const own = await fillAll(place.headers, async (name) => {
      const value = await host.secret(name, init?.signal ?? life)
      secrets.push(value)
      return value
    })
    for (const [name, value] of Object.entries(own)) headers.set(name, value)
    const response = await fetch(input, { ...init, headers })
    if (response.status >= 400)
      return refusalOf(response, secrets, [...Object.values(own), headers.get('authorization') ?? ''])
    return boundedResponse(response, maxResponseBytes)
  }
}

interface Watcher {
  /** The server took a message. */
  reached(): void
  /** No connection came about for a message. */
  unreachable(reason: string): void
  /** A stream could not be taken up again after this event. */
  notResumed(eventId: string): void
}

/** Tells what becomes of messages and of streams that are taken up again. */
function watched(fetch: typeof globalThis.fetch, watcher: Watcher): typeof globalThis.fetch {
  return async (input, init) => {
    const message = init?.method === 'POST'
    const eventId = new Headers(init?.headers).get('last-event-id')
    try {
      const response = await fetch(input, init)
      if (message && response.ok) watcher.reached()
      if (eventId !== null && !response.ok && !forToken.has(response.status)) watcher.notResumed(eventId)
      return response
    } catch (error) {
      if (message && ToolError.is(error) && error.code === 'BACKEND_UNAVAILABLE') watcher.unreachable(error.message)
      if (eventId !== null && init?.signal?.aborted !== true) watcher.notResumed(eventId)
      throw error
    }
  }
}

/** As much of a refusal is read as an error of the protocol may need. */
const mostBytes = 65_536
const shortestHidden = 8

/**
 * A response of 400 or more, small enough to be shown and without secrets and what else the request was sent with: some
 * servers repeat the headers that they did not like, and the words of a refusal reach subscribers and logs.
 */
export async function refusalOf(
  response: Response,
  secrets: readonly string[],
  sent: readonly string[],
): Promise<Response> {
  const { status, statusText, headers, url } = response
  const bare = sent.map((value) => value.replace(/^\S+ /, ''))
  const hidden = [...secrets, ...[...sent, ...bare].filter((value) => value.length >= shortestHidden)]
  const redactor = createRedactor({ values: hidden, keys: false })
  const pieces = redactor.pieces()
  const { text, whole } = await beginning(response)
  // The end of what is not the whole text may be half a secret, and is not shown.
  const shown = pieces.push(text) + (whole ? pieces.end() : '')
  const result = new Response(shown, { status, statusText, headers })
  Object.defineProperty(result, 'url', { value: url })
  return result
}

/** What can be read of it: a refusal is one, whatever becomes of its words. */
async function beginning({ body }: Response): Promise<{ readonly text: string; readonly whole: boolean }> {
  const pieces: Uint8Array[] = []
  let size = 0
  let whole = false
  try {
    for await (const piece of body ?? []) {
      pieces.push(piece)
      size += piece.byteLength
      // Leaving the loop lets go of the rest.
      if (size >= mostBytes) break
    }
    whole = size < mostBytes
  } catch {
    // The status says enough.
  }
  const text = Buffer.concat(pieces, Math.min(size, mostBytes)).toString('utf8')
  return { text, whole }
}

/** How long a request that was cancelled stays open for the notice to reach the server first. */
const noticeMs = 1_000

/** The requests of a transport that have no answer yet. */
interface OpenRequests {
  /** Hears that a request has its answer. */
  answered(id: unknown): void
  /** Ends the request whose stream could not be taken up again after this event; true when there is one. */
  notResumed(eventId: string): boolean
}

interface OpenRequest {
  readonly stop: AbortController
  /** The last event of its stream that had an id. */
  eventId?: string
}

/**
 * Ends requests that the SDK leaves open: one whose stream ended without the answer would wait until the call's time is
 * over, or until ten attempts to take the stream up again have failed; and one that was cancelled would, before
 * 2026-07-28, keep its connection until the server lets go.
 */
export function openRequests(transport: Transport): OpenRequests {
  const open = new Map<unknown, OpenRequest>()
  const send = transport.send.bind(transport)
  const end = (id: unknown, message: string): void => {
    // For a request that has its answer this is one answer too many, which the SDK ignores.
    if (typeof id === 'number') transport.onmessage?.({ jsonrpc: '2.0', id, error: { code: -32_000, message } })
  }
  transport.send = async (message: JSONRPCMessage, options: TransportSendOptions = {}) => {
    if (!('method' in message)) return send(message, options)
    if (!('id' in message)) {
      const cancelled = message.method === 'notifications/cancelled' ? open.get(message.params?.requestId) : undefined
      if (cancelled === undefined) return send(message, options)
      // Where every connection carries such a request, the notice waits for one that only the end of a request frees.
      const timer = setTimeout(() => cancelled.stop.abort(), noticeMs)
      try {
        return await send(message, options)
      } finally {
        clearTimeout(timer)
        cancelled.stop.abort()
      }
    }
    const { id } = message
    const request: OpenRequest = { stop: new AbortController() }
    const { requestSignal, onRequestStreamEnd, onresumptiontoken } = options
    const signals = requestSignal === undefined ? [] : [requestSignal]
    open.set(id, request)
    await send(message, {
      ...options,
      requestSignal: AbortSignal.any([...signals, request.stop.signal]),
      onresumptiontoken: (eventId) => {
        request.eventId = eventId
        onresumptiontoken?.(eventId)
      },
      onRequestStreamEnd: () => {
        onRequestStreamEnd?.()
        end(id, 'The server closed the stream without an answer.')
      },
    }).catch((error: unknown) => {
      open.delete(id)
      throw error
    })
  }
  return {
    answered: (id) => void open.delete(id),
    notResumed(eventId) {
      for (const [id, request] of open) {
        if (request.eventId !== eventId) continue
        end(id, 'The connection broke before the server answered, and the stream could not be taken up again.')
        request.stop.abort()
        open.delete(id)
        return true
      }
      return false
    },
  }
}
