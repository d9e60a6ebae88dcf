import { ToolError } from '@gantry/contract'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import type { Authorizer } from './authorizer.ts'
import { boundedResponse } from './bounded.ts'
import type { Link } from './link.ts'
import { type OpenRequests, openRequests } from './open-requests.ts'
import { refusalOf } from './refusal.ts'
import type { Sdk } from './sdk.ts'
import { fillAll } from './secrets.ts'
import type { RemotePlace } from './settings.ts'

const leaveMs = 1_000
/** Refusals that the SDK answers with a new token. */
const forToken: ReadonlySet<number> = new Set([401, 403])

export interface RemoteLinkOptions {
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
