import { type IncomingMessage, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Server, TlsOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { isLoopback } from '../config/service-address.ts'
import { type Answer, problem, safeHeaders } from './answer.ts'
import { createConnections } from './connections.ts'
import { foreignCheck, originForm } from './foreign.ts'
import {
  type HttpContext,
  type HttpLog,
  handleRequest,
  handleRoute,
  type IncomingRequest,
  type Mount,
} from './handle-request.ts'
import { defaultHttpLimits, type HttpLimits } from './limits.ts'
import { createRequestTracker } from './request-scope.ts'
import { methodsOf, type Route } from './route.ts'
import { allRoutes } from './routes.ts'
import type { Service } from './service.ts'
import { admitSecure, followTls, readTls, type TlsFiles, tlsOptions } from './tls.ts'
import { createWaiting } from './waiting.ts'

export interface HttpOptions {
  readonly service: Service
  readonly authenticate: HttpContext['authenticate']
  readonly log: HttpLog
  readonly limits?: Partial<HttpLimits>
  /** 127.0.0.1 when absent, so that only this machine can reach it. */
  readonly host?: string
  /** 0, any that is free, when absent. */
  readonly port?: number
  /** Names under which it may be asked besides; all of them may be used when it is bound to more than this machine. */
  readonly hosts?: readonly string[]
  /** Origins of web pages that may ask it besides its own. */
  readonly origins?: readonly string[]
  /** Speaks TLS 1.2 or newer and nothing else; files that change are looked at again, every 10 s unless told. */
  readonly tls?: TlsFiles & { readonly lookEveryMs?: number }
  /** What is at other addresses of the same server, behind the same checks. */
  readonly mounts?: readonly Mount[]
}

/** A server that listens. */
export interface HttpServer {
  readonly host: string
  readonly port: number
  /** Where it can be reached, without a slash at the end. */
  readonly url: string
  /**
   * Accepts nothing more, answers those who wait for a call with where it is, ends streams of events, and lets the other
   * requests finish for `graceMs` (5 s) before it breaks them off. Closing twice is closing once.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Opens the HTTP door of a service. Rejects with CONFIG_INVALID when the address or the certificate cannot be had. */
export async function createHttpServer(options: HttpOptions): Promise<HttpServer> {
  const { service, authenticate, log, host = '127.0.0.1', port = 0, hosts = [], origins = [], tls } = options
  // A limit that follows the configuration is a getter, which a plain copy would ask once.
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
  // One name of this machine stands for two addresses; the same server listens at one.
  const bound = await listen(app, host === 'localhost' ? '127.0.0.1' : host, port)
  if (tls !== undefined && held !== undefined) {
    endings.push(followTls(app.server as unknown as Server, tls, held, log, tls.lookEveryMs))
  }
  const url = `${tls === undefined ? 'http' : 'https'}://${nameOf(host)}:${bound}`
  return { host, port: bound, url, close: closing(app, endings) }
}

/** How a client on this machine says an address: one that stands for all of them leads nowhere. */
function nameOf(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** Reading bodies, checking them and writing answers is ours; the framework finds the route. */
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
    // A connection on which nothing moves for longer than anybody may wait is dead, or its reader is.
    connectionTimeout: maxWaitMs + 30_000,
    rewriteUrl: originForm,
    routerOptions: { maxParamLength: 600 },
    ...((tls === undefined ? { http: plain } : { https: { ...plain, ...tls } }) as { readonly http: ServerOptions }),
    clientErrorHandler: (error, socket) => answerClientError(error, socket, tracker.current(socket)),
    // A path that cannot be decoded, or has parts that are too long, is no path of ours.
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
    const fault = new ToolError('PAYLOAD_INVALID', 'The only expectation that is met is 100-continue.')
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
    const why = taken ? 'is taken by another process; stop that one, or choose another with --port' : 'cannot be had'
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
 * Answers what is not HTTP, or not in time, or has too long a head: no route ever sees it. `current` is the response that
 * the connection is busy with. Bytes that come behind a whole request are never answered in place of its answer.
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

/** Answers requests that no route takes: the path may be known with other methods, or not at all. */
function unrouted(routes: readonly Route[]): (incoming: IncomingRequest) => Answer {
  const known = routes.map((route) => ({
    form: new RegExp(`^${route.path.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`),
    methods: methodsOf(route),
  }))
  return ({ request }) => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    const methods = known.filter(({ form }) => form.test(path)).flatMap((one) => one.methods)
    // A path can look like one that is known, and hold a part that cannot be read.
    if (methods.length === 0 || methods.some((method) => method === request.method)) {
      return problem(
        new ToolError('NOT_FOUND', 'There is nothing at this address; /v1/openapi.json lists what there is.'),
      )
    }
    const allow = [...methods, 'OPTIONS'].join(', ')
    if (request.method === 'OPTIONS') return { kind: 'empty', status: 204, headers: { allow } }
    return problem(new ToolError('NOT_FOUND', `This address takes ${allow}.`), 405, { allow })
  }
}
