import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Identity, ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { ConnectionSignals, DirectRequest } from '@gantry/mcp/internal/server/direct-call'
import { createDispatcher, type Dispatcher, type DispatcherOptions } from '@gantry/mcp/internal/server/dispatcher'
import { type CallScope, callContinues, type McpHost, type Outcome } from '@gantry/mcp/internal/server/host'
import { mostInBatch, type RefusedJson, refusedJson } from '@gantry/mcp/internal/server/message-lines'
import { type Answer, asToolError, json, problem, safeHeaders } from '../http/answer.ts'
import type { Known } from '../http/authentication/authenticator.ts'
import {
  type HttpContext,
  identify,
  type Mount,
  type RequestScope,
  recheck,
  requireSigned,
} from '../http/handle-request.ts'
import { parseBody, readBody } from '../http/request-input.ts'
import type { Service } from '../http/service.ts'

export interface McpHttpOptions extends DispatcherOptions {
  readonly resource: ResourceSettings
}

export interface McpHttpHandler {
  readonly mounts: readonly Mount[]
  /** Ends sessions and streams; calls continue. */
  close(): Promise<void>
}

/**
 * The MCP endpoint of the service, `/mcp`. Authentication, permission and the digest of a signed body are checked by the
 * functions that every route uses; the dispatcher of `@gantry/mcp` decides what answers the request.
 */
export async function createMcpHttpHandler(options: McpHttpOptions): Promise<McpHttpHandler> {
  const dispatcher = await createDispatcher(options)
  const handle: Mount['handle'] = async (incoming, scope, context) => {
    const { request, response } = incoming
    const { method = '' } = request
    if (method === 'OPTIONS') return { kind: 'empty', status: 204, headers: { allow } }
    if (!methods.includes(method))
      return problem(new ToolError('NOT_FOUND', `This path allows ${allow}.`), 405, { allow })
    const entry = await admit(request, scope, context, options.resource)
    if ('refused' in entry) return entry.refused
    const { known } = entry
    const { identity } = known
    if (method === 'GET') {
      context.hold(identity, response, scope)
      recheck(context, incoming, scope, identity)
    }
    if (method !== 'POST') {
      return sendResponse(response, await dispatcher.session(webRequest(request, scope.gone), identity), scope)
    }
    if (!dispatcher.isJson(request.headers['content-type'])) {
      return rpcError(415, -32_000, 'Unsupported Media Type: Content-Type must be application/json')
    }
    const { bodyBytes } = context.limits
    const bytes = await readBody(request, bodyBytes)
    requireSigned(bytes, known)
    const { body, refused } = bodyOf(bytes, bodyBytes)
    if (refused !== undefined) return json(refused, 400)
    if (Array.isArray(body) && body.length > mostInBatch) return rpcError(400, -32_600, 'The batch is too long.')
    if (mayWait(body)) context.hold(identity, response, scope)
    const kind = dispatcher.classify(request.headers, body)
    if (kind === 'direct') return sendCall(dispatcher, response, body as never, identity, scope)
    const asked = webRequest(request, scope.gone)
    if (kind === 'legacy') {
      const task = await dispatcher.createTask(asked, body, identity)
      if (task !== undefined) return json(task)
    }
    if (kind === 'listen') recheck(context, incoming, scope, identity)
    return sendResponse(response, await dispatcher.post(kind, asked, body, identity), scope)
  }
  return {
    mounts: [{ path: '/mcp', handle }, ...resourceMounts(options.resource)],
    close: () => dispatcher.close(),
  }
}

const methods: readonly string[] = ['GET', 'POST', 'DELETE']
const allow = 'GET, POST, DELETE, OPTIONS'

/** The caller, or a refusal whose `WWW-Authenticate` header names where a token can be obtained. */
async function admit(
  request: IncomingMessage,
  { gone }: RequestScope,
  context: HttpContext,
  resource: ResourceSettings,
): Promise<{ readonly known: Known } | { readonly refused: Answer }> {
  try {
    return { known: await identify({ access: 'key', permission: resource.permission }, request, context, gone) }
  } catch (error) {
    const challenge = challengeOf(error, resource, request)
    if (challenge === undefined) throw error
    return { refused: problem(asToolError(error), undefined, { 'www-authenticate': challenge }) }
  }
}

/** Whether a message may open a stream or wait for a call; one without an id is answered at once. */
function mayWait(body: unknown): boolean {
  return typeof body === 'object' && body !== null && (Array.isArray(body) || 'id' in body)
}

/** The parsed body, or the response to one that cannot be parsed. */
function bodyOf(bytes: Uint8Array, most: number): { readonly body?: unknown; readonly refused?: RefusedJson } {
  try {
    const body = parseBody(bytes, most)
    return body === undefined ? { refused: refusedJson('', 'The body is empty.') } : { body }
  } catch (error) {
    if (!ToolError.is(error) || error.code !== 'PAYLOAD_INVALID') throw error
    return { refused: refusedJson(Buffer.from(bytes).toString('utf8'), error.message) }
  }
}

/** A JSON-RPC error in response to a request whose id is not known. */
function rpcError(status: number, code: number, message: string): Answer {
  return json({ jsonrpc: '2.0', error: { code, message }, id: null }, status)
}

/** The time without a byte after which a response becomes a stream with heartbeats. */
const quietMs = 10_000

/** Answers a direct call with one JSON, or, when the call takes long, with an event stream that ends with that JSON. */
export async function sendCall(
  { call }: Pick<Dispatcher, 'call'>,
  response: ServerResponse,
  request: DirectRequest,
  identity: Identity,
  connection: ConnectionSignals,
): Promise<Answer> {
  const { stop } = connection
  let streaming = false
  const heartbeat = (): void => {
    if (stop.aborted || response.destroyed) return
    if (!streaming) response.writeHead(200, { ...safeHeaders, 'content-type': 'text/event-stream' })
    streaming = true
    response.write(': still here\n\n')
  }
  const timer = setInterval(heartbeat, quietMs)
  try {
    const text = JSON.stringify(await call(request, identity, connection))
    if (!streaming) return { kind: 'text', status: 200, text }
    response.end(`event: message\ndata: ${text}\n\n`)
    return { kind: 'sent', status: 200 }
  } finally {
    clearInterval(timer)
  }
}

/** A request for the SDK; its body was read before and is passed separately. */
function webRequest(request: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) {
    // Credentials are not passed beyond this handler.
    if (typeof value === 'string' && name !== 'authorization' && name !== 'cookie') headers.set(name, value)
  }
  return new Request('http://localhost/mcp', { method: request.method ?? 'GET', headers, signal })
}

/** Writes a response of the SDK, a stream as fast as the client reads it. */
async function sendResponse(response: ServerResponse, answer: Response, { stop }: RequestScope): Promise<Answer> {
  const { status, body } = answer
  const headers = { ...Object.fromEntries(answer.headers), ...safeHeaders }
  if (response.destroyed) await body?.cancel()
  else if (body === null) response.writeHead(status, headers).end()
  else if (answer.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
    const text = await answer.text()
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
  } else {
    response.writeHead(status, headers)
    response.flushHeaders()
    // A client that disconnects, or a server that closes, ends the stream; the SDK sees the abort of the request's
    // signal.
    await pipeline(Readable.fromWeb(body as never), response, { signal: stop }).catch(() => response.destroy())
  }
  return { kind: 'sent', status }
}

/** What clients need to know to obtain a token. */
interface ResourceSettings {
  /** The public URL of the endpoint, when a proxy makes it differ from the requested one. */
  readonly url?: string | undefined
  /** The issuers whose tokens are accepted now; without any the metadata is not served. */
  readonly issuers: () => readonly string[]
  /** The permission that callers of the endpoint need. */
  readonly permission?: string | undefined
}

const wellKnown = '/.well-known/oauth-protected-resource'

/** The documents of RFC 9728, at the path that belongs to `/mcp` and at the path for the whole server. */
function resourceMounts(settings: ResourceSettings): readonly Mount[] {
  return [`${wellKnown}/mcp`, wellKnown].map((path) => ({
    path,
    async handle({ request }) {
      const issuers = settings.issuers()
      if (issuers.length === 0) return problem(new ToolError('NOT_FOUND', 'No token issuer is configured.'))
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        return problem(new ToolError('NOT_FOUND', 'This path allows GET, HEAD.'), 405, { allow: 'GET, HEAD' })
      }
      const resource = resourceUrl(settings, request)
      if (resource === null)
        return problem(new ToolError('PAYLOAD_INVALID', 'The Host header of the request is malformed.'))
      return json({
        resource: settings.url ?? resource.href,
        authorization_servers: issuers,
        bearer_methods_supported: ['header'],
        resource_name: 'Gantry',
        ...(settings.permission === undefined ? {} : { scopes_supported: [settings.permission] }),
      })
    },
  }))
}

/** The value of `WWW-Authenticate` for a refused request, or undefined when a credential would not help. */
function challengeOf(error: unknown, settings: ResourceSettings, request: IncomingMessage): string | undefined {
  if (!ToolError.is(error)) return undefined
  const url = resourceUrl(settings, request)
  const metadata = url === null || settings.issuers().length === 0 ? [] : [`resource_metadata="${metadataOf(url)}"`]
  const scope = settings.permission === undefined ? [] : [`scope="${settings.permission}"`]
  if (error.code === 'DENIED') return ['Bearer error="insufficient_scope"', ...scope, ...metadata].join(', ')
  if (error.code !== 'UNAUTHENTICATED') return undefined
  const shown = request.headers.authorization === undefined ? [] : ['error="invalid_token"']
  return ['Bearer realm="gantry"', ...shown, ...scope, ...metadata].join(', ')
}

function metadataOf({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${wellKnown}${pathname}`
}

/** The URL of the endpoint: the configured one, or else the requested one; null when that is malformed. */
function resourceUrl({ url }: ResourceSettings, { headers, socket }: IncomingMessage): URL | null {
  return URL.parse(url ?? `${'encrypted' in socket ? 'https' : 'http'}://${headers.host ?? 'localhost'}/mcp`)
}

/** How long one request for an outcome waits; it is repeated as long as the caller wants the outcome. */
const waitMs = 60_000

/**
 * The service as a host. `leaving` aborts when this process is about to stop: a call whose connection breaks from then on
 * is not cancelled, because its caller did not leave.
 */
export function serviceHost(service: Service, leaving: AbortSignal): McpHost {
  const outcomeOf = async (callId: string, { identity, signal, onReport }: CallScope): Promise<Outcome> => {
    if (onReport !== undefined) {
      for await (const event of await service.events(callId, 0, identity, signal)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result
        await onReport(event)
      }
    }
    for (;;) {
      const outcome = await service.wait(callId, identity, waitMs, signal)
      if (outcome !== undefined) return outcome
      signal.throwIfAborted()
    }
  }
  return {
    get executor() {
      return service.executor
    },
    async run(input, scope) {
      const { identity, signal } = scope
      const { callId } = await service.submit(input, identity, { waits: scope.onReport === undefined })
      // When the store is unavailable the cancellation is lost; the call then ends by its own time limit.
      const cancel = (): void => void (leaving.aborted || service.cancel(callId, identity).catch(() => undefined))
      const stopListening = onAbort(signal, cancel)
      try {
        return await outcomeOf(callId, scope)
      } catch (error) {
        throw leaving.aborted ? callContinues(callId, error) : error
      } finally {
        stopListening()
      }
    },
    durable: service,
    artifact: (id, range, identity, signal) => service.artifact(id, range, identity, signal),
  }
}
