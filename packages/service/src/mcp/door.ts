import { type Identity, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { McpHttpHandler } from '@modelcontextprotocol/server'
import { type Answer, json } from '../http/answer.ts'
import { type Known, unauthenticated } from '../http/authentication/authenticator.ts'
import { isBody } from '../http/authentication/signed-request.ts'
import type { Mount } from '../http/mount.ts'
import { problem } from '../http/problems.ts'
import { parseBody, readBody } from '../http/read-body.ts'
import { recheck } from '../http/recheck.ts'
import type { Visit } from '../http/request-scope.ts'
import { type Arrival, authenticated, type House } from '../http/serve.ts'
import { createChanges } from './changes.ts'
import { createClassify } from './classify.ts'
import { type DirectSettings, directCall, taskCreation } from './direct-call.ts'
import { createListeners, type Listeners } from './listeners.ts'
import { mostInBatch } from './read-line.ts'
import { type RefusedJson, refusedJson } from './refused-json.ts'
import { challengeOf, type ResourceSettings, resourceMounts } from './resource-metadata.ts'
import { rpcError } from './rpc.ts'
import { loadSdk, type McpSdk } from './sdk.ts'
import { createMcpParts, createMcpServer, type Era, isOwn, type McpExtension, type McpServerOptions } from './server.ts'
import { createSessions, type SessionLimits, type Sessions } from './sessions.ts'
import { sendResponse, webRequest } from './web.ts'

export interface McpDoorOptions extends McpServerOptions, DirectSettings {
  /** How clients of earlier revisions are served: each with a session in memory, or each request for itself. */
  readonly sessions?: 'memory' | 'none'
  readonly limits?: Partial<SessionLimits>
  readonly resource: ResourceSettings
  /** How often it is looked whether tools have changed. */
  readonly lookMs?: number
}

export interface McpDoor {
  readonly mounts: readonly Mount[]
  /** Ends sessions and streams. Calls that were made stay. */
  close(): Promise<void>
}

/** Everything that requests have in common. */
interface Inside {
  readonly sdk: McpSdk
  readonly handler: McpHttpHandler
  readonly sessions: Sessions | undefined
  readonly listeners: Listeners
}

/**
 * The MCP endpoint of the service, `/mcp`. A request is let in by the same checks as every other one of the server. Then
 * it goes one of four ways: a call of 2026-07-28 that nobody listens to while it runs is answered here, with no object of
 * the SDK made for it; `subscriptions/listen` gets a stream; the rest of 2026-07-28 goes to the SDK; and what earlier
 * revisions send goes to its session.
 */
export async function createMcpDoor(options: McpDoorOptions): Promise<McpDoor> {
  const sdk = await loadSdk()
  const parts = createMcpParts(options)
  const changes = createChanges(parts.surface, options.lookMs)
  const make = (era: Era) => createMcpServer(sdk, parts, era)
  const handler = sdk.createMcpHandler(({ era }) => make(era), {
    legacy: options.sessions === 'none' ? 'stateless' : 'reject',
    responseMode: 'auto',
  })
  const sessions =
    options.sessions === 'none' ? undefined : createSessions(sdk, () => make('legacy'), changes, options.limits)
  const listeners = createListeners(sdk, () => make('modern'), changes, options.limits)
  const inside: Inside = { sdk, handler, sessions, listeners }
  const classify = createClassify(sdk)
  const direct = directCall(parts, options)
  const createTask = taskCreation(parts)

  const handle: Mount['handle'] = async (arrival, visit, house) => {
    const { method = '' } = arrival.request
    if (method === 'OPTIONS') return { kind: 'empty', status: 204, headers: { allow } }
    if (!methods.includes(method)) return problem(new ToolError('NOT_FOUND', `This takes ${allow}.`), 405, { allow })
    const entry = await admitted(arrival, visit, house, options)
    if ('refused' in entry) return entry.refused
    const { identity, bodyDigest } = entry.known
    if (method === 'GET') {
      house.hold(identity, arrival.response, visit)
      recheck(house, arrival, visit, identity)
    }
    if (method !== 'POST') return forSession(inside, arrival, visit, identity)
    if (!sdk.isJsonContentType(arrival.request.headers['content-type'])) {
      return rpcError(415, -32_000, 'Unsupported Media Type: Content-Type must be application/json')
    }
    const bytes = await readBody(arrival.request, house.limits.bodyBytes)
    if (bodyDigest !== undefined && !isBody(bytes, bodyDigest)) throw unauthenticated()
    const { body, refused } = bodyOf(bytes, house.limits.bodyBytes)
    if (refused !== undefined) return json(refused, 400)
    if (Array.isArray(body) && body.length > mostInBatch) return rpcError(400, -32_600, 'The batch is too long.')
    if (mayWait(body)) house.hold(identity, arrival.response, visit)
    const kind = classify(arrival.request.headers, body)
    if (kind === 'direct' && !isOwned(options.extension, body)) {
      return direct(arrival, visit, body as never, identity)
    }
    const asked = webRequest(arrival.request, visit.gone)
    const how = { parsedBody: body, authInfo: authInfoOf(identity) }
    if (kind === 'legacy' && (sessions === undefined || sessions.holds(asked, identity))) {
      const task = await createTask(body, identity)
      if (task !== undefined) return task
    }
    if (kind === 'legacy' && sessions !== undefined) {
      return sendResponse(arrival.response, await sessions.post(asked, body, identity, how), visit)
    }
    const listens = kind === 'listen'
    if (listens) recheck(house, arrival, visit, identity)
    const response = await (listens ? listeners.open(asked, identity, how) : handler.fetch(asked, how))
    return sendResponse(arrival.response, response, visit)
  }
  return {
    mounts: [{ path: '/mcp', handle }, ...resourceMounts(options.resource)],
    async close() {
      changes.close()
      await Promise.all([sessions?.close(), listeners.close(), handler.close()])
    },
  }
}

const methods: readonly string[] = ['GET', 'POST', 'DELETE']
const allow = 'GET, POST, DELETE, OPTIONS'

/** Who asks, if he may; whoever is not known is told where he can have himself made known. */
async function admitted(
  { request }: Arrival,
  { gone }: Visit,
  house: House,
  { resource }: McpDoorOptions,
): Promise<{ readonly known: Known } | { readonly refused: Answer }> {
  const { permission } = resource
  try {
    const known = await authenticated(request, house, gone)
    if (permission === undefined || holds(known.identity, permission)) return { known }
    throw new ToolError('DENIED', `This needs the permission ${permission}.`, { details: { permission } })
  } catch (error) {
    const challenge = challengeOf(error, resource, request)
    if (challenge === undefined) throw error
    return { refused: problem(error as ToolError, undefined, { 'www-authenticate': challenge }) }
  }
}

/** The stream of a session, or its end. */
async function forSession(
  { handler, sessions }: Inside,
  { request, response }: Arrival,
  visit: Visit,
  identity: Identity,
): Promise<Answer> {
  const asked = webRequest(request, visit.gone)
  const how = { authInfo: authInfoOf(identity) }
  const answer = sessions === undefined ? handler.fetch(asked, how) : sessions.other(asked, identity, how)
  return sendResponse(response, await answer, visit)
}

/** Whether a message may become a stream or wait for a call; one without an id is answered at once. */
function mayWait(body: unknown): boolean {
  return typeof body === 'object' && body !== null && (Array.isArray(body) || 'id' in body)
}

/** Whether a call is one of an extension, which may need what only the SDK has. */
function isOwned(extension: McpExtension | undefined, body: unknown): boolean {
  return extension !== undefined && isOwn(extension, (body as { params: { name: string } }).params.name)
}

/** What a request says, or the answer to one whose body is not taken. */
function bodyOf(bytes: Uint8Array, most: number): { readonly body?: unknown; readonly refused?: RefusedJson } {
  try {
    const body = parseBody(bytes, most)
    return body === undefined ? { refused: refusedJson('', 'The body is empty.') } : { body }
  } catch (error) {
    if (!ToolError.is(error) || error.code !== 'PAYLOAD_INVALID') throw error
    return { refused: refusedJson(Buffer.from(bytes).toString('utf8'), error.message) }
  }
}

/** Who asks, in the place that the SDK has for it; his credential goes no further than here. */
function authInfoOf(identity: Identity) {
  return { token: '', clientId: identity.principal, scopes: [...identity.permissions], extra: { identity } }
}
