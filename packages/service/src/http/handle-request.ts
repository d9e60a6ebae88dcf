import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Identity, ToolError } from '@gantry/contract'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { type Answer, asToolError, problem, send } from './answer.ts'
import { type Authenticate, type Known, unauthenticated } from './authentication/authenticator.ts'
import { isBody } from './authentication/signed-request.ts'
import { type Connections, createPipelining, type Pipelining } from './connections.ts'
import type { HttpLimits, Waiting } from './limits.ts'
import {
  asObject,
  checked,
  checkedParams,
  memberCheck,
  noBytes,
  parseBody,
  readBody,
  readQuery,
} from './request-input.ts'
import type { Route } from './route.ts'
import type { Service } from './service.ts'

/** The parts of a request that the check of Host and Origin reads. */
export type Addressed = Pick<IncomingMessage, 'url' | 'headers' | 'headersDistinct'>

/** What every route needs. */
export interface HttpContext {
  readonly service: Service
  /** Identifies the caller; rejects with UNAUTHENTICATED. */
  readonly authenticate: Authenticate
  readonly limits: HttpLimits
  readonly log: HttpLog
  readonly tracker: RequestTracker
  /** Takes a slot for a request that may take long. */
  readonly hold: Waiting['hold']
  /** Whether the server listens on loopback only. */
  readonly local: boolean
  refuseForeign(request: Addressed): void
}

/** A request as the router passes it. */
export interface IncomingRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly params: { readonly [name: string]: string }
  readonly query: unknown
}

type Handler = (incoming: IncomingRequest) => Promise<void>

const anonymous: Known = { identity: { principal: 'nobody', tenant: 'none', permissions: [] } }
/** HSTS: a browser that has used TLS once uses nothing else for a year. */
const secureForAYear = 'max-age=31536000'

/** One route as a handler; it always answers, and never rejects. */
export function handleRoute(route: Route, context: HttpContext): Handler {
  const checkQuery = memberCheck('The query', route.query ?? {})
  const checkBody = memberCheck('The body', route.body?.members ?? {}, route.body?.required)
  const handle = async (incoming: IncomingRequest, scope: RequestScope): Promise<Answer> => {
    const { service, limits, local } = context
    const { headers } = incoming.request
    const known = await identify(route, incoming.request, context, scope.gone)
    const { identity } = known
    const params = checkedParams(route, incoming.params)
    const query = checked(readQuery(incoming.query, route.query ?? {}), checkQuery)
    const bytes = route.method === 'GET' ? noBytes : await readBody(incoming.request, limits.bodyBytes)
    requireSigned(bytes, known)
    const body = checked(asObject('The body', parseBody(bytes, limits.bodyBytes) ?? {}), checkBody)
    const hold = (): void => context.hold(identity, incoming.response, scope)
    const { gone, stop } = scope
    const asked = { params, query, body, headers, identity, gone, stop, hold, limits, local }
    const answer = await route.handle(asked, service)
    if (route.access === 'key') recheckOpen(answer, context, incoming, scope, identity)
    return answer
  }
  return handleRequest(context, route.path, handle)
}

/** A response that stays open ends when its credential is no longer valid. */
function recheckOpen(
  { kind }: Answer,
  context: HttpContext,
  incoming: IncomingRequest,
  scope: RequestScope,
  identity: Identity,
): void {
  if (kind === 'events') recheck(context, incoming, scope, identity)
  // A server that closes lets a download finish, so `stop` does not end it.
  const end = (): void => void incoming.response.destroy()
  if (kind === 'content') recheck(context, incoming, { ...scope, end }, identity)
}

/** Handles a request: sends the answer of the work, or its error. */
export function handleRequest(
  context: HttpContext,
  path: string,
  work: (incoming: IncomingRequest, scope: RequestScope) => Answer | Promise<Answer>,
): Handler {
  const { tracker, log, limits } = context
  return async (incoming) => {
    const { request, response } = incoming
    const turn = tracker.pipelining(request, response)
    if (turn !== true && !(await turn)) return
    const scope = tracker.enter(response)
    const started = performance.now()
    const named = { method: request.method, path }
    const failed = (err: unknown): void => log.error({ ...named, err }, 'A response was cut off.')
    let answer: Answer
    try {
      if (tracker.closing)
        throw new ToolError('SERVICE_UNAVAILABLE', 'The service is stopping; retry on another instance or later.')
      context.refuseForeign(request)
      answer = await work(incoming, scope)
    } catch (thrown) {
      const error = asToolError(thrown)
      if (error.code === 'INTERNAL') log.error({ ...named, err: thrown }, 'A request failed with an internal error.')
      answer = problem(error)
    }
    if (tracker.closing && !response.headersSent) response.setHeader('connection', 'close')
    if ('encrypted' in request.socket) response.setHeader('strict-transport-security', secureForAYear)
    try {
      await send(response, answer, { heartbeatMs: limits.heartbeatMs, signal: scope.stop, failed })
    } catch (error) {
      failed(error)
      response.destroy()
    }
    const ms = Math.round(performance.now() - started)
    log.debug({ ...named, status: answer.status, ms }, 'answered')
  }
}

/** The caller of a request, by its headers alone. Rejects with UNAUTHENTICATED, RATE_LIMITED or DENIED. */
export async function identify(
  { access, permission }: Pick<Route, 'access'> & { readonly permission?: string | undefined },
  request: IncomingMessage,
  context: HttpContext,
  signal: AbortSignal,
): Promise<Known> {
  const local = access === 'local' && context.local
  if (access === 'open' || (local && request.headers.authorization === undefined)) return anonymous
  const known = await authenticated(request, context, signal)
  if (local || permission === undefined || holds(known.identity, permission)) return known
  throw new ToolError('DENIED', `This needs the permission ${permission}.`, { details: { permission } })
}

/** Authenticates a request, after which its connection is no longer anonymous. Rejects with UNAUTHENTICATED or RATE_LIMITED. */
async function authenticated(
  { method = '', url = '', headers, socket }: IncomingMessage,
  { authenticate, tracker }: Pick<HttpContext, 'authenticate' | 'tracker'>,
  signal: AbortSignal,
): Promise<Known> {
  const known = await authenticate({ method, path: url, headers }, signal)
  tracker.authenticated(socket, known.identity)
  return known
}

/** Throws UNAUTHENTICATED when the body does not have the digest that the signature of its request covers. */
export function requireSigned(bytes: Uint8Array, { bodyDigest }: Known): void {
  if (bodyDigest !== undefined && !isBody(bytes, bodyDigest)) throw unauthenticated()
}

/** The number of failed lookups in a row that are tolerated, as when the database is briefly unavailable. */
const mostDoubts = 5

/**
 * Authenticates the credential of a request again at intervals while its response is open. The request ends when the
 * credential is revoked, has expired or belongs to another identity, or when lookups fail for too long.
 */
export function recheck(
  { authenticate, limits }: Pick<HttpContext, 'authenticate' | 'limits'>,
  { request, response }: Pick<IncomingRequest, 'request' | 'response'>,
  scope: RequestScope,
  identity: Identity,
): void {
  // The response of a disconnected client is closed already, and emits no further event.
  if (scope.stop.aborted) return
  const { method = '', url: path = '', headers } = request
  const allowed = canonicalJson(identity as never)
  let doubts = 0
  const end = (): void =>
    scope.end(new ToolError('UNAUTHENTICATED', 'The credential of this stream is no longer valid.'))
  const look = async (): Promise<void> => {
    try {
      const known = await authenticate({ method, path, headers, again: true }, scope.stop)
      if (canonicalJson(known.identity as never) === allowed) doubts = 0
      else end()
    } catch (error) {
      if (ToolError.is(error) && error.code === 'UNAUTHENTICATED') end()
    }
  }
  const timer = setInterval(() => {
    doubts += 1
    if (doubts > mostDoubts) end()
    else void look()
  }, limits.recheckMs)
  response.once('close', () => clearInterval(timer))
}

/**
 * A handler of every method of one path. Host and Origin are checked before it, and what it throws is answered as on
 * every route; it authenticates the caller and reads the body itself, with the functions of the context.
 */
export interface Mount {
  readonly path: string
  handle(incoming: IncomingRequest, scope: RequestScope, context: HttpContext): Promise<Answer>
}

/** The log of the HTTP server; a pino logger fits. */
export interface HttpLog {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The lifetime of one request, for its handler. */
export interface RequestScope {
  /** Aborts when the client has disconnected. */
  readonly gone: AbortSignal
  /** Aborts when the client has disconnected, the server closes, or `end` is called. */
  readonly stop: AbortSignal
  /** Aborts `stop` with this reason, which ends waiting and streaming. */
  end(reason: ToolError): void
}

/** Tracks connections and requests, so that a server that closes can end them. */
export interface RequestTracker {
  readonly closing: boolean
  connect(socket: Socket): void
  /** Decides when a request is handled: those of one connection are handled one at a time. */
  readonly pipelining: Pipelining
  enter(response: ServerResponse): RequestScope
  /** A request of a connection was authenticated; see `Connections`. */
  authenticated(socket: Socket, identity: Identity): void
  /** The current, or last, response of a connection. */
  current(socket: Socket): ServerResponse | undefined
  /**
   * Aborts the requests that only wait; others may finish. A connection is closed when it has no request: one that
   * never had a request is not idle to Node, which would wait for it.
   */
  close(): void
}

export function createRequestTracker(connections: Connections): RequestTracker {
  const sockets = new Map<Socket, ServerResponse | undefined>()
  const inside = new Set<AbortController>()
  let closing = false
  return {
    get closing() {
      return closing
    },
    connect(socket) {
      sockets.set(socket, undefined)
      socket.once('close', () => sockets.delete(socket))
    },
    pipelining: createPipelining(),
    enter(response) {
      const [gone, stop] = [new AbortController(), new AbortController()]
      const { socket } = response
      if (socket !== null) sockets.set(socket, response)
      const end = socket === null ? undefined : connections.begin(socket, response.req)
      inside.add(stop)
      response.on('error', () => undefined)
      response.once('close', () => {
        inside.delete(stop)
        end?.()
        if (closing) socket?.destroySoon()
        if (response.writableFinished) return
        const left = new ToolError('CANCELLED', 'The client disconnected.')
        gone.abort(left)
        stop.abort(left)
      })
      return { gone: gone.signal, stop: stop.signal, end: (reason) => stop.abort(reason) }
    },
    authenticated: (socket, identity) => connections.authenticated(socket, identity),
    current: (socket) => sockets.get(socket),
    close() {
      closing = true
      const reason = new ToolError(
        'SERVICE_UNAVAILABLE',
        'The service is stopping; retry on another instance or later.',
      )
      for (const stop of inside) stop.abort(reason)
      for (const [socket, response] of sockets) if (response?.writableFinished ?? true) socket.destroy()
    },
  }
}
