import { contractVersion, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ProgressReport } from '@gantry/core/internal/backends/backend'
import { onAbort, unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Client, ClientCapabilities, JSONRPCMessage, StandardSchemaV1 } from '@modelcontextprotocol/client'
import type { Link, Sdk } from './sdk.ts'
import type { McpSettings } from './settings.ts'

/** One connection to a server, from the handshake to its end. */
export interface Connection {
  readonly client: Client
  readonly incoming: Incoming
  /** Whether the server supports revision 2026-07-28 or later. */
  readonly modern: boolean
  /** The check of a call's result for older servers. */
  readonly callResult: StandardSchemaV1<unknown, object>
  /** Why the connection ended, in a sentence; undefined while it is open. */
  ended(): string | undefined
  /** Why the connection is probably broken, though it has not ended. */
  lost(): string | undefined
  /** Holds the connection open while a request uses it. */
  begin(): void
  end(): void
  /** Closes the connection when no request uses it any more. */
  retire(): void
  close(): Promise<void>
}

interface ConnectParts {
  readonly sdk: Sdk
  readonly settings: McpSettings
  readonly events: ClientEvents
  /** Opens a link; called a second time when the first did not survive the revision probe. */
  open(): Promise<Link>
  /** The server is known to be of an old revision, so it is not probed again. */
  readonly legacy: boolean
  /** Called once when the connection ends, from either side. */
  ended(reason: string): void
}

/** Connects until the signal aborts; when it rejects, everything started for the attempt has ended. */
export async function connect(parts: ConnectParts, signal: AbortSignal): Promise<Connection> {
  try {
    return await attempt(parts, parts.legacy, signal)
  } catch (error) {
    if (parts.legacy || signal.aborted || !leftOnQuestion(parts, error)) throw error
    return attempt(parts, true, signal)
  }
}

/** Some old programs exit on any request before the handshake; a new one is then started without the probe. */
function leftOnQuestion({ sdk, settings }: ConnectParts, error: unknown): boolean {
  const lost = sdk.SdkError.isInstance(error) && error.code === sdk.SdkErrorCode.EraNegotiationFailed
  return lost && settings.location.kind === 'program'
}

async function attempt(parts: ConnectParts, legacy: boolean, signal: AbortSignal): Promise<Connection> {
  signal.throwIfAborted()
  const { sdk, settings } = parts
  const link = await parts.open()
  const client = createClient(sdk, settings, parts.events)
  const leave = onAbort(signal, () => void link.transport.close().catch(() => undefined))
  const incoming = createIncoming(() => client.getProtocolEra() === 'legacy')
  link.transport.onmessage = (message) => {
    incoming.see(message)
    if (!('method' in message)) link.answered?.(message.id)
  }
  let up = false
  let over: string | undefined
  client.onclose = () => {
    over ??= link.ended() ?? `The connection to the MCP server ${settings.name} was closed.`
    if (up) parts.ended(over)
  }
  try {
    const options = { signal, timeout: settings.timeoutMs }
    const connecting = client.connect(link.transport, legacy ? { ...options, prior: { kind: 'legacy' } } : options)
    // While the user's consent is pending, `connect` does not settle on abort.
    connecting.catch(() => undefined)
    await unlessAborted(connecting, signal)
    signal.throwIfAborted()
    if (over !== undefined) throw new ToolError('BACKEND_UNAVAILABLE', over)
  } catch (cause) {
    await link.transport.close().catch(() => undefined)
    signal.throwIfAborted()
    const reason = link.ended()
    // The server's own error is more informative than the reason of the close.
    if (reason !== undefined && !leftOnQuestion(parts, cause) && !sdk.ProtocolError.isInstance(cause)) {
      throw new ToolError('BACKEND_UNAVAILABLE', reason, { cause })
    }
    throw cause
  } finally {
    leave()
  }
  up = true
  const close = async (): Promise<void> => {
    over ??= `The connection to the MCP server ${settings.name} was closed.`
    await link.leave?.()
    await client.close()
  }
  return {
    client,
    incoming,
    modern: client.getProtocolEra() === 'modern',
    callResult: callResultSchema(sdk),
    ended: () => over,
    lost: () => link.lost?.(),
    ...untilUnused(() => void close().catch(() => undefined)),
    close,
  }
}

/** Counts the requests on a connection, so that it is not closed under them. */
function untilUnused(close: () => void): Pick<Connection, 'begin' | 'end' | 'retire'> {
  let working = 0
  let retired = false
  return {
    begin() {
      working += 1
    },
    end() {
      working -= 1
      if (retired && working === 0) close()
    },
    retire() {
      retired = true
      if (working === 0) close()
    },
  }
}

/** Members of results of other methods, which a call result without content must not have. */
const foreignKeys = ['task', 'inputRequests', 'requestState']

/**
 * The check of a call's result from a server before 2026-07-28. It accepts and refuses the same values as the SDK, which
 * builds its check again for each call; that takes longer than the rest of the call.
 */
export function callResultSchema({ specTypeSchemas }: Pick<Sdk, 'specTypeSchemas'>): StandardSchemaV1<unknown, object> {
  const { CallToolResult, RequestMeta } = specTypeSchemas
  const validate = (value: unknown): StandardSchemaV1.Result<object> => {
    const fault = isObject(value) ? faultOf(value) : undefined
    if (fault !== undefined) return { issues: [{ message: fault }] }
    const result = CallToolResult['~standard'].validate(value)
    if (result.issues !== undefined || !isObject(value) || value._meta === undefined) return result
    const meta = RequestMeta['~standard'].validate(value._meta)
    return meta.issues === undefined ? { value: { ...result.value, _meta: meta.value } } : meta
  }
  return { '~standard': { version: 1, vendor: 'gantry', validate } }
}

/** Only the schema of the newer revision is available, and it allows more here. */
function faultOf(value: Readonly<Record<string, unknown>>): string | undefined {
  const { content, structuredContent } = value
  if (structuredContent !== undefined && !isObject(structuredContent)) return 'structuredContent must be an object'
  const foreign = content === undefined ? foreignKeys.find((key) => key in value) : undefined
  return foreign === undefined ? undefined : `content is missing next to ${foreign}`
}

/** Sees every message before the SDK does. */
interface Incoming {
  see(message: JSONRPCMessage): void
  /** A token that no other call over this connection has. */
  nextToken(): string
  /** Receives the progress under this token until the returned function is called. */
  watch(token: string, listener: (report: ProgressReport) => void): () => void
}

/**
 * Works around two faults of the SDK. It delivers progress asynchronously, so that the last report is lost when the
 * result follows at once. And since 2026-07-28 it refuses a result without `resultType`, which clients must treat as
 * complete; `legacy` marks servers of earlier revisions, which have no such member.
 */
export function createIncoming(legacy: () => boolean): Incoming {
  const listeners = new Map<string, (report: ProgressReport) => void>()
  let count = 0
  return {
    nextToken: () => `progress-${++count}`,
    see(message) {
      if ('result' in message && !legacy() && isUnmarked(message.result)) message.result.resultType = 'complete'
      if (!('method' in message) || message.method !== 'notifications/progress') return
      const { progressToken, progress, total, message: text } = message.params ?? {}
      const listener = typeof progressToken === 'string' ? listeners.get(progressToken) : undefined
      if (listener === undefined || typeof progress !== 'number') return
      listener({
        progress,
        ...(typeof total === 'number' ? { total } : {}),
        ...(typeof text === 'string' ? { message: text } : {}),
      })
    },
    watch(token, listener) {
      listeners.set(token, listener)
      return () => void listeners.delete(token)
    },
  }
}

function isUnmarked(result: unknown): boolean {
  return typeof result === 'object' && result !== null && !('resultType' in result)
}

/** Notifications of a server. */
interface ClientEvents {
  toolsChanged(): void
  /** A log message; `level` is one of the eight of RFC 5424. */
  message(level: string, data: unknown): void
}

/** The limit of concurrent requests of one server; more are refused. */
const mostQuestions = 16
/** A program that does not answer the revision probe within this time is treated as one of an old revision. */
const longestProbeMs = 10_000

/**
 * A client of the SDK, not yet connected. It offers the server only capabilities that the host has a handler for. The
 * SDK refuses the others, as an error to the server or, since 2026-07-28, by ending the call.
 */
function createClient(sdk: Sdk, settings: McpSettings, events: ClientEvents): Client {
  const client = new sdk.Client(
    { name: 'gantry', version: contractVersion },
    {
      capabilities: capabilitiesOf(settings),
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: probeMs(settings) } },
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => events.toolsChanged() } },
    },
  )
  // Errors of a call reach the call; the others are ignored, because a server can produce them without limit.
  client.onerror = () => undefined
  client.setNotificationHandler('notifications/message', ({ params }) => events.message(params.level, params.data))
  answerQuestions(client, settings)
  return client
}

/** Over HTTP a missing response means a fault rather than an old server, so the probe has the full timeout. */
function probeMs({ location, timeoutMs }: McpSettings): number {
  return location.kind === 'program' ? Math.min(longestProbeMs, timeoutMs / 2) : timeoutMs
}

function capabilitiesOf({ handlers }: McpSettings): ClientCapabilities {
  return {
    ...(handlers.onElicitation === undefined ? {} : { elicitation: { form: { applyDefaults: true }, url: {} } }),
    ...(handlers.onSampling === undefined ? {} : { sampling: {} }),
    ...(handlers.onRoots === undefined ? {} : { roots: {} }),
  }
}

function answerQuestions(client: Client, { name, handlers }: McpSettings): void {
  const { onElicitation, onSampling, onRoots } = handlers
  let open = 0
  const answer = async <T>(work: () => Promise<T>): Promise<T> => {
    if (open >= mostQuestions) {
      throw new ToolError(
        'RATE_LIMITED',
        `The MCP server ${name} has more than ${mostQuestions} open requests to the host.`,
      )
    }
    open += 1
    try {
      return await work()
    } finally {
      open -= 1
    }
  }
  if (onElicitation !== undefined) {
    client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) =>
      answer(async () => {
        if (params.mode === 'url') checkWebAddress(params.url)
        return answerOf('onElicitation', await onElicitation(jsonOf(params), mcpReq)) as never
      }),
    )
  }
  if (onSampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', ({ params }, { mcpReq }) =>
      answer(async () => answerOf('onSampling', await onSampling(jsonOf(params), mcpReq)) as never),
    )
  }
  if (onRoots !== undefined) {
    client.setRequestHandler('roots/list', (_request, { mcpReq }) =>
      answer(async () => ({ roots: rootsOf(await onRoots(mcpReq)) })),
    )
  }
}

/** Parameters that the SDK has parsed from JSON. */
function jsonOf(params: unknown): JsonObject {
  return params as JsonObject
}

/** The value of a handler, if it is an object; the SDK validates the rest. */
function answerOf(handler: string, result: unknown): { readonly [member: string]: unknown } {
  if (isObject(result)) return result
  throw new ToolError('BACKEND_FAILED', `The client cannot answer: its ${handler} returned no result of the protocol.`)
}

/** The roots of a handler, given as a list or as the protocol's result. */
function rootsOf(result: unknown): { uri: string; name?: string }[] {
  const roots: unknown = Array.isArray(result) ? result : answerOf('onRoots', result).roots
  if (Array.isArray(roots) && roots.every(isRoot)) return roots.map((root) => ({ ...root }))
  throw new ToolError('BACKEND_FAILED', 'The client cannot answer: its onRoots returned no list of roots with a `uri`.')
}

function isRoot(root: unknown): root is { uri: string; name?: string } {
  return typeof root === 'object' && root !== null && 'uri' in root && typeof root.uri === 'string'
}

/** A URL that a server asks the user to open; any other scheme could start a program. */
export function checkWebAddress(address: string | URL): URL {
  const url = URL.parse(String(address))
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new ToolError('BACKEND_FAILED', 'The server asks the user to open a URL that is not http or https.')
}
