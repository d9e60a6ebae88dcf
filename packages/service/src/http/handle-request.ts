import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Identity, type Issue, type Json, type JsonObject, type JsonSchema, ToolError } from '@gantry/contract'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { nearest } from '@gantry/core/internal/search/near'
import { compileSchema } from '@gantry/json-schema'
import { type Answer, asToolError, problem } from './answer.ts'
import { type anyOf, type Known, unauthenticated } from './authentication/authenticator.ts'
import { isBody } from './authentication/signed-request.ts'
import type { Addressed } from './foreign.ts'
import type { HttpLimits } from './limits.ts'
import { noBytes, parseBody, readBody } from './read-body.ts'
import type { RequestScope, RequestTracker } from './request-scope.ts'
import type { Route } from './route.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'
import type { Waiting } from './waiting.ts'

/** What every route needs. */
export interface HttpContext {
  readonly service: Service
  /** Finds out who asks; rejects with UNAUTHENTICATED. */
  readonly authenticate: ReturnType<typeof anyOf>['authenticate']
  readonly limits: HttpLimits
  readonly log: HttpLog
  readonly tracker: RequestTracker
  /** Takes a place for a request that may take long. */
  readonly hold: Waiting['hold']
  /** Only this machine can reach the server. */
  readonly local: boolean
  refuseForeign(request: Addressed): void
}

/** A request as the router hands it over. */
export interface IncomingRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly params: { readonly [name: string]: string }
  readonly query: unknown
}

type Handler = (incoming: IncomingRequest) => Promise<void>

const nobody: Known = { identity: { principal: 'nobody', tenant: 'none', permissions: [] } }
/** Whoever came over TLS once comes no other way for a year. */
const secureForAYear = 'max-age=31536000'
const idForm = /^[A-Za-z0-9._:-]{1,200}$/

/** One route as a function of a request; it answers whatever happens, and never rejects. */
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

/** What goes on for long after its head is out ends with the credential that it was asked with. */
function recheckOpen(
  { kind }: Answer,
  context: HttpContext,
  incoming: IncomingRequest,
  scope: RequestScope,
  identity: Identity,
): void {
  if (kind === 'events') recheck(context, incoming, scope, identity)
  // A server that closes lets a download finish, so that `stop` does not end it.
  const end = (): void => void incoming.response.destroy()
  if (kind === 'content') recheck(context, incoming, { ...scope, end }, identity)
}

/** Answers a request with what the work gives or is refused for. */
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
    const failed = (err: unknown): void => log.error({ ...named, err }, 'An answer broke off.')
    let answer: Answer
    try {
      if (tracker.closing) throw new ToolError('SERVICE_UNAVAILABLE', 'The service is about to stop.')
      context.refuseForeign(request)
      answer = await work(incoming, scope)
    } catch (thrown) {
      const error = asToolError(thrown)
      if (error.code === 'INTERNAL') log.error({ ...named, err: thrown }, 'A request could not be handled.')
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
  if (access === 'open' || (local && request.headers.authorization === undefined)) return nobody
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

/** Throws UNAUTHENTICATED when the bytes of a body are not those that the signature of its request covers. */
export function requireSigned(bytes: Uint8Array, { bodyDigest }: Known): void {
  if (bodyDigest !== undefined && !isBody(bytes, bodyDigest)) throw unauthenticated()
}

/** Ids go into queries and files; a text that cannot be one of ours is not looked for. Tools have ids of another form. */
function checkedParams(
  { path }: Route,
  params: { readonly [name: string]: string },
): { readonly [name: string]: string } {
  const { id } = params
  if (id === undefined || idForm.test(id) || path.startsWith('/v1/tools/')) return params
  throw new ToolError('NOT_FOUND', 'There is nothing under this id.')
}

function checked(value: JsonObject, check: MemberCheck): JsonObject {
  check(value)
  return value
}

/** Looking for a name that was meant takes time, and nobody reads more. */
const mostIssues = 20
/** Further characters of a name say nothing about what was meant. */
const longestName = 64

/** Refuses an object with members that nobody reads, or that are not what they should be. */
type MemberCheck = (value: JsonObject) => void

/** Compiles the check once; what a schema refers to is left to whoever reads it, who knows more about it. */
export function memberCheck(
  what: string,
  members: { readonly [name: string]: JsonSchema },
  required: readonly string[] = [],
): MemberCheck {
  const known = Object.keys(members)
  const validator = compileSchema({ type: 'object', properties: withoutReferences(members), required })
  return (value) => {
    const unknown = Object.keys(value).filter((name) => !known.includes(name))
    const strange = unknown.slice(0, mostIssues).map((name) => unknownMember(name.slice(0, longestName), known))
    const issues = [...strange, ...validator.issues(value)].slice(0, mostIssues)
    if (issues.length === 0) return
    const text = issues.map(({ path, message }) => `${path === '' ? 'it' : path} ${message}`).join('; ')
    throw new ToolError('PAYLOAD_INVALID', `${what} cannot be taken: ${text.slice(0, 2_000)}.`, { details: { issues } })
  }
}

/** The object that a body or a query must be. */
function asObject(what: string, value: Json): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new ToolError('PAYLOAD_INVALID', `${what} must be a JSON object.`, {
    details: { issues: [{ path: '', message: 'must be an object' }] },
  })
}

function unknownMember(name: string, known: readonly string[]): Issue {
  const [near] = nearest(name, known, { limit: 1 })
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`
  const pointer = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return { path: `/${pointer}`, message: `is not known here${hint}` }
}

function withoutReferences(members: { readonly [name: string]: JsonSchema }): { [name: string]: JsonSchema } {
  const open = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(open)
    if (typeof schema !== 'object' || schema === null) return schema
    if ('$ref' in schema) return true
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, open(value)]))
  }
  return open(members) as { [name: string]: JsonSchema }
}

/**
 * A query as JSON: texts become the numbers that the schemas ask for, as far as they are numbers. What is empty is absent,
 * unless its schema says that it may be empty.
 */
function readQuery(given: unknown, members: { readonly [name: string]: JsonSchema }): JsonObject {
  const query: JsonObject = {}
  for (const [name, value] of Object.entries(given as JsonObject)) {
    const schema = Object.hasOwn(members, name) ? members[name] : undefined
    const { type, minLength } = typeof schema === 'object' ? schema : {}
    if (value === '' && minLength !== 0) continue
    const number = type === 'integer' && typeof value === 'string' && /^[0-9]{1,16}$/.test(value)
    Object.defineProperty(query, name, { value: number ? Number(value) : value, enumerable: true })
  }
  return query
}

/** So many looks in a row may find out nothing, as when the database is away for a moment. */
const mostDoubts = 5

/**
 * Looks now and then, as long as an answer is open, whether the credential of its request would be let in again as the
 * same identity. Once it would not, because it was revoked or is over, or nobody can tell for long, the visit ends.
 */
export function recheck(
  { authenticate, limits }: Pick<HttpContext, 'authenticate' | 'limits'>,
  { request, response }: Pick<IncomingRequest, 'request' | 'response'>,
  scope: RequestScope,
  identity: Identity,
): void {
  // The response of a client who has gone is closed already, and would not tell of it again.
  if (scope.stop.aborted) return
  const { method = '', url: path = '', headers } = request
  const allowed = canonicalJson(identity as never)
  let doubts = 0
  const end = (): void => scope.end(new ToolError('UNAUTHENTICATED', 'The credential of this stream counts no longer.'))
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
 * What answers every method of one path by itself. Host and Origin are checked before, and what it throws is answered as
 * on every route; who asks, and how long a body may be, it finds out with what the house has.
 */
export interface Mount {
  readonly path: string
  handle(incoming: IncomingRequest, scope: RequestScope, context: HttpContext): Promise<Answer>
}

/** Where the HTTP door writes what happened; a pino logger fits. */
export interface HttpLog {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}
