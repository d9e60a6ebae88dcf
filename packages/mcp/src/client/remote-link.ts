import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { within } from '@gantry/core/internal/resilience/abort'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import type { Authorizer } from './authorizer.ts'
import { boundedResponse } from './bounded-response.ts'
import type { Link, Sdk } from './sdk.ts'
import { fillAll, type RemoteLocation } from './settings.ts'

const leaveMs = 1_000
/** Statuses on which the SDK requests a new token. */
const forToken: ReadonlySet<number> = new Set([401, 403])

interface RemoteLinkOptions {
  /** Named in messages. */
  readonly server: string
  readonly location: RemoteLocation
  readonly maxResponseBytes: number
  readonly sdk: Sdk
  readonly host: BackendHost
  /** Fetch through egress. */
  readonly fetch: typeof fetch
  readonly authorizer: Authorizer | undefined
  /** Ends with the backend. */
  readonly life: AbortSignal
}

/** A link to a server over streamable HTTP; the SDK resumes streams that end early. */
export function remoteLink(options: RemoteLinkOptions): Link {
  const { server, sdk, location, authorizer } = options
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
  const transport = new sdk.StreamableHTTPClientTransport(location.url, {
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

/** Ends the session at the server, within a short time limit. */
async function leave(transport: { terminateSession(): Promise<void> }): Promise<void> {
  const nothing = () => undefined
  await within(leaveMs, transport.terminateSession(), nothing).catch(nothing)
}

/** Adds the host's headers, here and not in the SDK, which would also send them to an authorization server. */
function serverFetch({ location, host, fetch, maxResponseBytes, life }: RemoteLinkOptions): typeof globalThis.fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers)
    const secrets: string[] = []
    const own = await fillAll(location.headers, async (name) => {
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
  /** The server accepted a message. */
  reached(): void
  /** No connection could be opened for a message. */
  unreachable(reason: string): void
  /** A stream could not be resumed after this event. */
  notResumed(eventId: string): void
}

/** Reports the outcome of messages and of resumed streams. */
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

/** The limit of a refusal's body: enough for a JSON-RPC error. */
const mostBytes = 65_536
const shortestHidden = 8

/**
 * An error response, truncated for display and without secrets and request headers: some servers echo the headers that
 * they refuse, and the text of a refusal reaches subscribers and logs.
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
  // The end of a truncated text may be part of a secret, and is removed.
  const shown = pieces.push(text) + (whole ? pieces.end() : '')
  const result = new Response(shown, { status, statusText, headers })
  Object.defineProperty(result, 'url', { value: url })
  return result
}

/** The readable part of the body: the response stays a refusal even if its body cannot be read. */
async function beginning({ body }: Response): Promise<{ readonly text: string; readonly whole: boolean }> {
  const pieces: Uint8Array[] = []
  let size = 0
  let whole = false
  try {
    for await (const piece of body ?? []) {
      pieces.push(piece)
      size += piece.byteLength
      // Leaving the loop cancels the rest of the body.
      if (size >= mostBytes) break
    }
    whole = size < mostBytes
  } catch {
    // The status is sufficient.
  }
  const text = Buffer.concat(pieces, Math.min(size, mostBytes)).toString('utf8')
  return { text, whole }
}

/** How long a cancelled request stays open, so that its cancellation notification reaches the server first. */
const noticeMs = 1_000

/** The requests of a transport without a response yet. */
interface OpenRequests {
  /** Called when a request has its response. */
  answered(id: unknown): void
  /** Ends the request whose stream could not be resumed after this event; true when there is one. */
  notResumed(eventId: string): boolean
}

interface OpenRequest {
  readonly stop: AbortController
  /** The last event of its stream that had an id. */
  eventId?: string
}

/**
 * Ends requests that the SDK leaves open. A request whose stream ended without a response would wait until the deadline
 * of the call, or until ten attempts to resume the stream have failed. A cancelled request would, before 2026-07-28,
 * keep its connection until the server closes it.
 */
export function openRequests(transport: Transport): OpenRequests {
  const open = new Map<unknown, OpenRequest>()
  const send = transport.send.bind(transport)
  const end = (id: unknown, message: string): void => {
    // For a request that has its response this is a duplicate response, which the SDK ignores.
    if (typeof id === 'number') transport.onmessage?.({ jsonrpc: '2.0', id, error: { code: -32_000, message } })
  }
  transport.send = async (message: JSONRPCMessage, options: TransportSendOptions = {}) => {
    if (!('method' in message)) return send(message, options)
    if (!('id' in message)) {
      const cancelled = message.method === 'notifications/cancelled' ? open.get(message.params?.requestId) : undefined
      if (cancelled === undefined) return send(message, options)
      // When every connection is used by such a request, the notification waits until the end of a request frees one.
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
