import { type IncomingMessage, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { Server as SecureServer, type TlsOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { isLoopback } from '../config/service-files.ts'
import { type Answer, problem, safeHeaders } from './answer.ts'
import { createConnections } from './connections.ts'
import {
  type Addressed,
  createRequestTracker,
  type HttpContext,
  type HttpLog,
  handleRequest,
  handleRoute,
  type IncomingRequest,
  type Mount,
} from './handle-request.ts'
import { createWaiting, defaultHttpLimits, type HttpLimits } from './limits.ts'
import { methodsOf, type Route } from './route.ts'
import { allRoutes } from './routes.ts'
import type { Service } from './service.ts'
import { admitSecure, followTls, readTls, type TlsFiles, tlsOptions } from './tls.ts'

export interface HttpOptions {
  readonly service: Service
  readonly authenticate: HttpContext['authenticate']
  readonly log: HttpLog
  readonly limits?: Partial<HttpLimits>
  /** 127.0.0.1 when absent, so that only this machine can reach it. */
  readonly host?: string
  /** 0, any free port, when absent. */
  readonly port?: number
  /** Further host names that are allowed; every name is when the server is bound to more than loopback. */
  readonly hosts?: readonly string[]
  /** Origins of web pages that are allowed, in addition to its own. */
  readonly origins?: readonly string[]
  /** Accepts only TLS 1.2 or newer. Changed files are read again, every 10 s by default. */
  readonly tls?: TlsFiles & { readonly lookEveryMs?: number }
  /** Handlers of further paths of the same server, behind the same checks. */
  readonly mounts?: readonly Mount[]
}

/** A listening server. */
export interface HttpServer {
  readonly host: string
  readonly port: number
  /** Its URL, without a slash at the end. */
  readonly url: string
  /**
   * Accepts nothing more, answers requests that wait for a call with its state, ends event streams, and lets the other
   * requests finish for `graceMs` (5 s) before it cuts them off. A second call has no further effect.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Starts the HTTP server of a service. Rejects with CONFIG_INVALID when the address or the certificate cannot be used. */
export async function createHttpServer(options: HttpOptions): Promise<HttpServer> {
  const { service, authenticate, log, host = '127.0.0.1', port = 0, hosts = [], origins = [], tls } = options
  // A limit that follows the configuration is a getter, which a plain copy would read only once.
  const own = Object.getOwnPropertyDescriptors(options.limits ?? {})
  const limits: HttpLimits = Object.defineProperties({ ...defaultHttpLimits }, own)
  const connections = createConnections(limits)
  const tracker = createRequestTracker(connections)
  const refuseForeign = foreignCheck({ host, hosts, origins, secure: tls !== undefined })
  const { hold } = createWaiting(limits)
  const context: HttpContext = {
    service,
    authenticate,
    limits,
    log,
    tracker: tracker,
    hold,
    local: isLoopback(host),
    refuseForeign,
  }
  const held = tls === undefined ? undefined : await readTls(tls)
  const app = createApp(
    context,
    options.mounts ?? [],
    tls === undefined || held === undefined ? undefined : tlsOptions(held, tls, limits.headersMs),
  )
  const endings = [tracker.close]
  if (held === undefined) {
    app.server.on('connection', (socket: Socket) => connections.accept(socket) && tracker.connect(socket))
  } else endings.push(admitSecure(app.server, tracker, connections))
  // `localhost` may resolve to two addresses; the server listens on one.
  const bound = await listen(app, host === 'localhost' ? '127.0.0.1' : host, port)
  const server: object = app.server
  if (tls !== undefined && held !== undefined && server instanceof SecureServer) {
    endings.push(followTls(server, tls, held, log, tls.lookEveryMs))
  }
  const url = `${tls === undefined ? 'http' : 'https'}://${nameOf(host)}:${bound}`
  return { host, port: bound, url, close: closing(app, endings) }
}

/** The host that a client on this machine uses: a wildcard address cannot be connected to. */
function nameOf(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** The framework only finds the route; reading and checking bodies and writing responses is done here. */
function createApp(context: HttpContext, mounts: readonly Mount[], tls: TlsOptions | undefined): FastifyInstance {
  const { limits, tracker } = context
  const { headersMs, requestMs, maxWaitMs } = limits
  const routes = allRoutes()
  const other = adapt(handleRequest(context, 'unknown', unrouted(routes)))
  const plain = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: Math.min(headersMs, requestMs),
    connectionsCheckingInterval: Math.min(1_000, headersMs, requestMs),
    requireHostHeader: false,
  }
  const app = fastify({
    exposeHeadRoutes: false,
    return503OnClosing: false,
    requestTimeout: requestMs,
    keepAliveTimeout: limits.keepAliveMs,
    // A connection without traffic for longer than the longest wait is dead, or its client is.
    connectionTimeout: maxWaitMs + 30_000,
    rewriteUrl: originForm,
    routerOptions: { maxParamLength: 600 },
    ...((tls === undefined ? { http: plain } : { https: { ...plain, ...tls } }) as { readonly http: ServerOptions }),
    clientErrorHandler: (error, socket) => answerClientError(error, socket, tracker.current(socket)),
    // A path that cannot be decoded, or has parts that are too long, is unknown.
    frameworkErrors: (_error, request, reply) => void other(request, reply),
  })
  for (const route of routes)
    app.route({ method: methodsOf(route), url: route.path, handler: adapt(handleRoute(route, context)) })
  for (const { path, handle } of mounts)
    app.all(path, adapt(handleRequest(context, path, (incoming, scope) => handle(incoming, scope, context))))
  app.setNotFoundHandler(other)
  app.setErrorHandler((error, request, reply) =>
    adapt(handleRequest(context, 'unknown', () => Promise.reject(error)))(request, reply),
  )
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const fault = new ToolError('PAYLOAD_INVALID', 'The Expect header must be 100-continue.')
    const refuse = handleRequest(context, 'unknown', () => problem(fault, 417))
    void refuse({ request, response, params: {}, query: {} })
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  return app
}

function adapt(
  handle: (incoming: IncomingRequest) => Promise<void>,
): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
  return async (request, reply) => {
    reply.hijack()
    const params = (request.params ?? {}) as { readonly [name: string]: string }
    await handle({ request: request.raw, response: reply.raw, params, query: request.query })
  }
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<number> {
  try {
    await app.listen({ host, port })
  } catch (cause) {
    await app.close()
    const taken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE'
    const why = taken ? 'is in use by another process; stop it, or choose another port with --port' : 'cannot be opened'
    throw new ToolError('CONFIG_INVALID', `The address ${host}:${port} ${why}.`, { cause })
  }
  const address = app.server.address()
  return typeof address === 'object' && address !== null ? address.port : port
}

function closing(app: FastifyInstance, endings: readonly (() => void)[]): HttpServer['close'] {
  let closed: Promise<void> | undefined
  const end = async (graceMs: number): Promise<void> => {
    for (const ending of endings) ending()
    const force = setTimeout(() => app.server.closeAllConnections(), graceMs)
    try {
      await app.close()
    } finally {
      clearTimeout(force)
    }
  }
  return ({ graceMs = 5_000 } = {}) => {
    closed ??= end(graceMs)
    return closed
  }
}

/**
 * Answers malformed HTTP, timeouts and heads over the limit, which no route sees. `current` is the response in progress
 * on the connection. Bytes after a complete request never get the response of that request.
 */
function answerClientError(error: { readonly code?: string }, socket: Socket, current?: ServerResponse): void {
  const busy = current !== undefined && !current.writableFinished && (current.headersSent || current.req.complete)
  if (error.code === 'ECONNRESET' || !socket.writable || busy) {
    socket.destroy()
    return
  }
  const { status, fault } = faultOf(error.code)
  const { headers, body } = { body: {}, ...problem(fault, status, { connection: 'close' }) }
  const text = JSON.stringify(body)
  const all = {
    ...safeHeaders,
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`)
  socket.destroySoon()
}

function faultOf(code: string | undefined): { readonly status: number; readonly fault: ToolError } {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    const how = { effect: 'none', stage: 'admit' } as const
    return { status: 408, fault: new ToolError('TIMEOUT', 'The request did not arrive in time.', how) }
  }
  if (code === 'HPE_HEADER_OVERFLOW' || code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return { status: 431, fault: new ToolError('PAYLOAD_TOO_LARGE', 'The head of the request is too long.') }
  }
  return { status: 400, fault: new ToolError('PAYLOAD_INVALID', 'This is not an HTTP request.') }
}

/** Answers requests without a route: the path may exist with other methods, or not at all. */
function unrouted(routes: readonly Route[]): (incoming: IncomingRequest) => Answer {
  const known = routes.map((route) => ({
    form: new RegExp(`^${route.path.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`),
    methods: methodsOf(route),
  }))
  return ({ request }) => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    const methods = known.filter(({ form }) => form.test(path)).flatMap((one) => one.methods)
    // A path can match a route, and have a part that cannot be decoded.
    if (methods.length === 0 || methods.some((method) => method === request.method)) {
      return problem(new ToolError('NOT_FOUND', 'This path does not exist; /v1/openapi.json lists the routes.'))
    }
    const allow = [...methods, 'OPTIONS'].join(', ')
    if (request.method === 'OPTIONS') return { kind: 'empty', status: 204, headers: { allow } }
    return problem(new ToolError('NOT_FOUND', `This path allows ${allow}.`), 405, { allow })
  }
}

const hostForm = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?$/i
const loopback: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

export interface ForeignOptions {
  /** The address that the server is bound to. */
  readonly host: string
  /** Further host names that are allowed. */
  readonly hosts: readonly string[]
  /** Origins of web pages that are allowed, in addition to its own. */
  readonly origins: readonly string[]
  /** Whether the server uses TLS itself, so that a page loaded without TLS has another origin. */
  readonly secure?: boolean
}

/**
 * Refuses requests that are not for this server: those with no Host header, two, or a malformed one, and those that a
 * web page of another origin sends. A page can make its own name resolve to this machine (DNS rebinding), so a server
 * on a loopback address answers to loopback names only. Throws PAYLOAD_INVALID or DENIED.
 */
export function foreignCheck({ host, hosts, origins, secure }: ForeignOptions): (request: Addressed) => void {
  const named = hosts.length > 0 || isLoopback(host) ? new Set([...loopback, host, ...hosts].map(lower)) : undefined
  const pages = new Set(origins.map(lower))
  return (request) => {
    const [asked, name] = hostOf(request)
    const { origin } = request.headers
    if (named !== undefined && !named.has(name)) {
      throw new ToolError('DENIED', 'This Host is not allowed; add it to `service.hosts` to allow it.')
    }
    if (origin === undefined || pages.has(lower(origin))) return
    const page = URL.parse(origin)
    if (page?.host !== asked || (secure === true && page.protocol !== 'https:')) {
      throw new ToolError('DENIED', 'This Origin is not allowed; add it to `service.origins` to allow it.')
    }
  }
}

const absoluteForm = /^https?:\/\/([^/?#]*)/i

/**
 * A request target without scheme and authority. An absolute target that names another host than the Host header is
 * left unchanged, for the check to refuse: a proxy that reads one of the two would otherwise serve another site than a
 * server that reads the other.
 */
export function originForm({ url = '', headers: { host = '' } }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  const [whole, authority] = absoluteForm.exec(url) ?? []
  if (whole === undefined || authority === undefined || lower(authority) !== lower(host)) return url
  const rest = url.slice(whole.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** The authority and the host name of a request, in lower case. Throws PAYLOAD_INVALID. */
function hostOf({ url = '', headersDistinct: { host: asked = [] } }: Addressed): readonly [string, string] {
  const [first = '', ...others] = asked.map(lower)
  if (first === '' || others.length > 0) throw misaddressed('must have exactly one Host header')
  const [, name, port = '0'] = hostForm.exec(first) ?? []
  if (name === undefined || Number(port) > 65_535) throw misaddressed('has a Host header that is not a host and a port')
  if (!url.startsWith('/') && url !== '*') throw misaddressed('has a target for another host than its Host header')
  return [first, name]
}

function misaddressed(what: string): ToolError {
  return new ToolError('PAYLOAD_INVALID', `The request ${what}.`)
}

function lower(text: string): string {
  return text.toLowerCase()
}
