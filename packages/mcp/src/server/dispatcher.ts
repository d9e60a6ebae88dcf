import type { IncomingHttpHeaders } from 'node:http'
import type { Identity } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import {
  type ConnectionSignals,
  type DirectRequest,
  type DirectSettings,
  directCall,
  type JsonRpcResponse,
  taskCreation,
} from './direct-call.ts'
import { loadSdk, type McpSdk } from './sdk.ts'
import { createMcpParts, createMcpServer, type Era, isOwn, type McpExtension, type McpServerOptions } from './server.ts'
import { createSessions, type SessionLimits } from './sessions.ts'
import { createSubscriptions, createToolListChanges } from './tool-list-changes.ts'

export interface DispatcherOptions extends McpServerOptions, DirectSettings {
  /** How clients of earlier revisions are served: with sessions in memory, or statelessly. */
  readonly sessions?: 'memory' | 'none'
  readonly limits?: Partial<SessionLimits>
  /** How often the tools are compared with what clients were last notified of. */
  readonly lookMs?: number
}

/**
 * The protocol behind an HTTP endpoint, after the endpoint has authenticated the caller and parsed the body. A request
 * takes one of four paths: a call of 2026-07-28 without notifications is answered by `call`, without objects of the SDK;
 * `subscriptions/listen` opens a stream; other requests of 2026-07-28 go to the SDK; and requests of earlier revisions go
 * to their session.
 */
export interface Dispatcher {
  /** Whether a Content-Type is JSON, as the SDK decides it. */
  isJson(contentType: string | undefined): boolean
  classify(headers: IncomingHttpHeaders, body: unknown): RequestKind
  /** Answers a request of kind `direct`. */
  call(request: DirectRequest, identity: Identity, connection: ConnectionSignals): Promise<JsonRpcResponse>
  /** Answers a request of kind `legacy` that asks for a task in a session of the caller; else undefined. */
  createTask(request: Request, body: unknown, identity: Identity): Promise<JsonRpcResponse | undefined>
  /** Answers a request of any other kind; its body was parsed before. */
  post(kind: RequestKind, request: Request, body: unknown, identity: Identity): Promise<Response>
  /** GET, the stream of a session, or DELETE, its end. */
  session(request: Request, identity: Identity): Promise<Response>
  /** Ends sessions and streams; calls continue. */
  close(): Promise<void>
}

export async function createDispatcher(options: DispatcherOptions): Promise<Dispatcher> {
  const sdk = await loadSdk()
  const parts = createMcpParts(options)
  const changes = createToolListChanges(parts.surface, options.lookMs)
  const make = (era: Era) => createMcpServer(sdk, parts, era)
  const handler = sdk.createMcpHandler(({ era }) => make(era), {
    legacy: options.sessions === 'none' ? 'stateless' : 'reject',
    responseMode: 'auto',
  })
  const sessions =
    options.sessions === 'none' ? undefined : createSessions(sdk, () => make('legacy'), changes, options.limits)
  const listeners = createSubscriptions(sdk, () => make('modern'), changes, options.limits)
  const classify = createClassify(sdk)
  const createTask = taskCreation(parts)
  return {
    isJson: (contentType) => sdk.isJsonContentType(contentType),
    classify(headers, body) {
      const kind = classify(headers, body)
      return kind === 'direct' && isOwned(options.extension, body) ? 'sdk' : kind
    },
    call: directCall(parts, options),
    async createTask(request, body, identity) {
      return sessions === undefined || sessions.holds(request, identity) ? createTask(body, identity) : undefined
    },
    post(kind, request, body, identity) {
      const how = { parsedBody: body, authInfo: authInfoOf(identity) }
      if (kind === 'legacy' && sessions !== undefined) return sessions.post(request, body, identity, how)
      return kind === 'listen' ? listeners.open(request, identity, how) : handler.fetch(request, how)
    },
    session(request, identity) {
      const how = { authInfo: authInfoOf(identity) }
      return sessions === undefined ? handler.fetch(request, how) : sessions.other(request, identity, how)
    },
    async close() {
      changes.close()
      await Promise.all([sessions?.close(), listeners.close(), handler.close()])
    },
  }
}

/** Whether a call belongs to an extension, which may need features that only the SDK has. */
function isOwned(extension: McpExtension | undefined, body: unknown): boolean {
  const params = isObject(body) ? body.params : undefined
  return extension !== undefined && isObject(params) && isOwn(extension, String(params.name))
}

/** The caller where the SDK expects it; the credential itself is not passed on. */
function authInfoOf(identity: Identity) {
  return { token: '', clientId: identity.principal, scopes: [...identity.permissions], extra: { identity } }
}

/** The path of a request; see `dispatcher.ts`. */
type RequestKind = 'direct' | 'listen' | 'sdk' | 'legacy'

type Classify = (headers: IncomingHttpHeaders, body: unknown) => RequestKind

const revision = '2026-07-28'
const logLevelMeta = 'io.modelcontextprotocol/logLevel'
/** Envelopes that were accepted; a client sends the same one with each request. */
const mostKnown = 1_000
const longestKnown = 2_000

/**
 * Decides by the SDK's own classification. Only a well-formed call goes `direct`: its headers agree with its body, and
 * it wants no notifications while it runs. The SDK answers all others, invalid ones too. Envelopes that the SDK
 * accepted are cached, because checking one costs more than the rest of the path.
 */
export function createClassify(sdk: McpSdk): Classify {
  const known = new Set<string>()
  return (headers, body) => {
    const meta = plainMeta(headers, body)
    const text = meta === undefined ? '' : JSON.stringify(meta)
    if (meta !== undefined && known.has(text)) return 'direct'
    const outcome = sdk.classifyInboundRequest({ httpMethod: 'POST', ...saidBy(headers), body })
    if (outcome.kind === 'legacy') return 'legacy'
    if (outcome.kind !== 'modern' || outcome.messageKind !== 'request') return 'sdk'
    if (outcome.message.method === 'subscriptions/listen') return 'listen'
    if (meta === undefined || outcome.classification.revision !== revision) return 'sdk'
    if (known.size >= mostKnown) known.clear()
    if (text.length <= longestKnown) known.add(text)
    return 'direct'
  }
}

type Members = { readonly [member: string]: unknown }

/** The `_meta` envelope of a call without special parameters, or undefined. */
function plainMeta(headers: IncomingHttpHeaders, body: unknown): Members | undefined {
  if (!isObject(body)) return undefined
  const { jsonrpc, id, method, params } = body
  if (jsonrpc !== '2.0' || method !== 'tools/call' || !isId(id) || !isObject(params)) return undefined
  const { name, arguments: args = {}, _meta, ...more } = params
  if (!isObject(args) || !isObject(_meta) || Object.keys(more).length > 0) return undefined
  const same =
    headers['mcp-method'] === method && headers['mcp-name'] === name && headers['mcp-protocol-version'] === revision
  const wantsReports = _meta.progressToken !== undefined || _meta[logLevelMeta] !== undefined
  return same && !wantsReports && acceptsBoth(headers.accept) ? _meta : undefined
}

function isId(id: unknown): boolean {
  return typeof id === 'string' || Number.isSafeInteger(id)
}

function acceptsBoth(accept: string | undefined): boolean {
  return accept?.includes('application/json') === true && accept.includes('text/event-stream')
}

function saidBy(headers: IncomingHttpHeaders): { readonly [name: string]: string } {
  const said: { [name: string]: string } = {}
  const note = (name: string, value: unknown): void => {
    if (typeof value === 'string') said[name] = value
  }
  note('protocolVersionHeader', headers['mcp-protocol-version'])
  note('mcpMethodHeader', headers['mcp-method'])
  note('mcpNameHeader', headers['mcp-name'])
  return said
}
