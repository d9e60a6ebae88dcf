import type { IncomingHttpHeaders } from 'node:http'
import type { Identity } from '@gantry/contract'
import { createClassify, type RequestKind } from './classify.ts'
import {
  type ConnectionSignals,
  type DirectRequest,
  type DirectSettings,
  directCall,
  type JsonRpcResponse,
  taskCreation,
} from './direct-call.ts'
import { loadSdk } from './sdk.ts'
import { createMcpParts, createMcpServer, type Era, isOwn, type McpExtension, type McpServerOptions } from './server.ts'
import { createSessions, type SessionLimits } from './sessions.ts'
import { createSubscriptions } from './subscriptions.ts'
import { createToolListChanges } from './tool-list-changes.ts'

export interface DispatcherOptions extends McpServerOptions, DirectSettings {
  /** How clients of earlier revisions are served: each with a session in memory, or each request for itself. */
  readonly sessions?: 'memory' | 'none'
  readonly limits?: Partial<SessionLimits>
  /** How often the tools are compared with what clients were last notified of. */
  readonly lookMs?: number
}

/**
 * The protocol behind an HTTP endpoint, after the endpoint has authenticated the caller and parsed the body. A request
 * takes one of four paths: a call of 2026-07-28 that receives nothing while it runs is answered by `call`, with no object
 * of the SDK made for it; `subscriptions/listen` opens a stream; the rest of 2026-07-28 goes to the SDK; and what earlier
 * revisions send goes to its session.
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

/** Whether a call is one of an extension, which may need what only the SDK has. */
function isOwned(extension: McpExtension | undefined, body: unknown): boolean {
  return extension !== undefined && isOwn(extension, (body as { params: { name: string } }).params.name)
}

/** The caller where the SDK expects it; the credential itself is not passed on. */
function authInfoOf(identity: Identity) {
  return { token: '', clientId: identity.principal, scopes: [...identity.permissions], extra: { identity } }
}
