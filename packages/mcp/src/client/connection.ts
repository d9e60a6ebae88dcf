import { ToolError } from '@gantry/contract'
import type { ProgressReport } from '@gantry/core/internal/backends/backend'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Client, JSONRPCMessage, StandardSchemaV1 } from '@modelcontextprotocol/client'
import { type ClientEvents, createClient } from './client.ts'
import type { Link, Sdk } from './sdk.ts'
import type { McpSettings } from './settings.ts'

/** One conversation with a server, from the handshake to its end. */
export interface Connection {
  readonly client: Client
  readonly incoming: Incoming
  /** Speaks the revision of 2026-07-28 or later. */
  readonly modern: boolean
  /** The check of a call's result where it does not. */
  readonly callResult: StandardSchemaV1<unknown, object>
  /** Why the connection ended, in a sentence; undefined while it is open. */
  ended(): string | undefined
  /** Why it is probably of no use any more, though it has not ended. */
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
  /** Makes a fresh link; called a second time when the first did not survive the question for the server's era. */
  open(): Promise<Link>
  /** The server was found to be an old one before, so the question is not asked again. */
  readonly legacy: boolean
  /** Called once when the connection ends, from either side. */
  ended(reason: string): void
}

/** Connects within the signal's time; what was started for an attempt that fails is gone when this rejects. */
export async function connect(parts: ConnectParts, signal: AbortSignal): Promise<Connection> {
  try {
    return await attempt(parts, parts.legacy, signal)
  } catch (error) {
    if (parts.legacy || signal.aborted || !leftOnQuestion(parts, error)) throw error
    return attempt(parts, true, signal)
  }
}

/** Some old programs exit when they are asked anything before the handshake; a fresh one is then not asked. */
function leftOnQuestion({ sdk, settings }: ConnectParts, error: unknown): boolean {
  const lost = sdk.SdkError.isInstance(error) && error.code === sdk.SdkErrorCode.EraNegotiationFailed
  return lost && settings.place.kind === 'program'
}

async function attempt(parts: ConnectParts, legacy: boolean, signal: AbortSignal): Promise<Connection> {
  signal.throwIfAborted()
  const { sdk, settings } = parts
  const link = await parts.open()
  const client = createClient(sdk, settings, parts.events)
  const onAbort = (): void => void link.transport.close().catch(() => undefined)
  signal.addEventListener('abort', onAbort, { once: true })
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
    // It may be waiting for a person who gets a token, and the SDK would wait with it.
    connecting.catch(() => undefined)
    await unlessAborted(connecting, signal)
    signal.throwIfAborted()
    if (over !== undefined) throw new ToolError('BACKEND_UNAVAILABLE', over)
  } catch (cause) {
    await link.transport.close().catch(() => undefined)
    signal.throwIfAborted()
    const reason = link.ended()
    // What the server answered says more than how it ended after it was told to.
    if (reason !== undefined && !leftOnQuestion(parts, cause) && !sdk.ProtocolError.isInstance(cause)) {
      throw new ToolError('BACKEND_UNAVAILABLE', reason, { cause })
    }
    throw cause
  } finally {
    signal.removeEventListener('abort', onAbort)
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

/** Counts those who work over a connection, so that one that is given up is not closed under them. */
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

/** What a result without content must not have, because it is then the answer to another question. */
const foreignKeys = ['task', 'inputRequests', 'requestState']

/**
 * The check of a call's result from a server before 2026-07-28. It takes and refuses what the SDK's own does, which the
 * SDK puts together anew for each call by having it fail once, and that takes longer than all else in its call.
 */
export function callResultSchema({ specTypeSchemas }: Pick<Sdk, 'specTypeSchemas'>): StandardSchemaV1<unknown, object> {
  const { CallToolResult, RequestMeta } = specTypeSchemas
  const validate = (value: unknown): StandardSchemaV1.Result<object> => {
    const fault = isRecord(value) ? faultOf(value) : undefined
    if (fault !== undefined) return { issues: [{ message: fault }] }
    const result = CallToolResult['~standard'].validate(value)
    if (result.issues !== undefined || !isRecord(value) || value._meta === undefined) return result
    const meta = RequestMeta['~standard'].validate(value._meta)
    return meta.issues === undefined ? { value: { ...result.value, _meta: meta.value } } : meta
  }
  return { '~standard': { version: 1, vendor: 'gantry', validate } }
}

/** The newer revision, whose schema is the one that can be had, allows more here. */
function faultOf(value: Readonly<Record<string, unknown>>): string | undefined {
  const { content, structuredContent } = value
  if (structuredContent !== undefined && !isRecord(structuredContent)) return 'structuredContent must be an object'
  const foreign = content === undefined ? foreignKeys.find((key) => key in value) : undefined
  return foreign === undefined ? undefined : `content is missing beside ${foreign}`
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Sees every message before the SDK does. */
interface Incoming {
  see(message: JSONRPCMessage): void
  /** A token that no other call over this connection has. */
  nextToken(): string
  /** Hears the progress under this token until it lets go. */
  watch(token: string, listener: (report: ProgressReport) => void): () => void
}

/**
 * Two things that the SDK does not do well. It hands progress on a moment later, so that the last report is lost when
 * the result comes right behind it. And since 2026-07-28 it refuses a result that does not say that it is complete,
 * though clients must take it for that; `legacy` says that the server is of the time before, where nobody asks.
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
