import { contractVersion, type JsonObject, ToolError } from '@gantry/contract'
import type { Client, ClientCapabilities } from '@modelcontextprotocol/client'
import type { Sdk } from './sdk.ts'
import type { McpSettings } from './settings.ts'

/** Notifications of a server. */
export interface ClientEvents {
  toolsChanged(): void
  /** A log message; `level` is one of the eight of RFC 5424. */
  message(level: string, data: unknown): void
}

/** So many questions of one server are answered at a time; more are refused. */
const mostQuestions = 16
/** A program that is asked for its era and stays silent is taken for an old one after this time. */
const longestProbeMs = 10_000

/**
 * A client of the SDK, not yet connected. It offers the server only what the host has a handler for: what is not
 * offered is refused by the SDK, as an error to the server or, since 2026-07-28, as the end of the call.
 */
export function createClient(sdk: Sdk, settings: McpSettings, events: ClientEvents): Client {
  const client = new sdk.Client(
    { name: 'gantry', version: contractVersion },
    {
      capabilities: capabilitiesOf(settings),
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: probeMs(settings) } },
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => events.toolsChanged() } },
    },
  )
  // Errors that belong to a call reach the call; the rest is noise that a server can make without end.
  client.onerror = () => undefined
  client.setNotificationHandler('notifications/message', ({ params }) => events.message(params.level, params.data))
  answerQuestions(client, settings)
  return client
}

/** Over HTTP silence is no answer of an old server but trouble, so there it may last as long as the rest. */
function probeMs({ place, timeoutMs }: McpSettings): number {
  return place.kind === 'program' ? Math.min(longestProbeMs, timeoutMs / 2) : timeoutMs
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
      throw new ToolError('RATE_LIMITED', `The MCP server ${name} asks more than ${mostQuestions} questions at a time.`)
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
        return answerOf('onElicitation', await onElicitation(params as unknown as JsonObject, mcpReq)) as never
      }),
    )
  }
  if (onSampling !== undefined) {
    client.setRequestHandler('sampling/createMessage', ({ params }, { mcpReq }) =>
      answer(async () => answerOf('onSampling', await onSampling(params as unknown as JsonObject, mcpReq)) as never),
    )
  }
  if (onRoots !== undefined) {
    client.setRequestHandler('roots/list', (_request, { mcpReq }) =>
      answer(async () => ({ roots: rootsOf(await onRoots(mcpReq)) })),
    )
  }
}

/** What a handler gave, as long as it can be a result at all; the SDK checks the rest of it. */
function answerOf(handler: string, result: unknown): object {
  if (typeof result === 'object' && result !== null && !Array.isArray(result)) return result
  throw new ToolError('BACKEND_FAILED', `The client cannot answer: its ${handler} gave no result of the protocol.`)
}

/** The places that a handler names, as a list or as the protocol's result. */
function rootsOf(result: unknown): { uri: string; name?: string }[] {
  const roots: unknown = Array.isArray(result) ? result : (answerOf('onRoots', result) as { roots?: unknown }).roots
  if (Array.isArray(roots) && roots.every(isRoot)) return roots.map((root) => ({ ...root }))
  throw new ToolError('BACKEND_FAILED', 'The client cannot answer: its onRoots gave no list of places with a `uri`.')
}

function isRoot(root: unknown): root is { uri: string; name?: string } {
  return typeof root === 'object' && root !== null && 'uri' in root && typeof root.uri === 'string'
}

/** An address that a server wants a person to open; anything but a web page could run something instead. */
export function checkWebAddress(address: string | URL): URL {
  const url = URL.parse(String(address))
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new ToolError('BACKEND_FAILED', 'The server wants a person to open an address that is not http or https.')
}
