import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { Answer } from './answer.ts'
import { type anyOf, type Known, unauthenticated } from './authentication/authenticator.ts'
import { isBody } from './authentication/signed-request.ts'
import { asObject, type MemberCheck, memberCheck } from './check-members.ts'
import type { Addressed } from './foreign.ts'
import type { HttpLimits } from './limits.ts'
import type { HttpLog } from './log.ts'
import { asToolError, problem } from './problems.ts'
import { noBytes, parseBody, readBody } from './read-body.ts'
import { readQuery } from './read-query.ts'
import { recheck } from './recheck.ts'
import type { Door, Visit } from './request-scope.ts'
import type { Route } from './route.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'
import type { Waiting } from './waiting.ts'

/** What every route needs. */
export interface House {
  readonly service: Service
  /** Finds out who asks; rejects with UNAUTHENTICATED. */
  readonly authenticate: ReturnType<typeof anyOf>['authenticate']
  readonly limits: HttpLimits
  readonly log: HttpLog
  readonly door: Door
  /** Takes a place for a request that may take long. */
  readonly hold: Waiting['hold']
  /** Only this machine can reach the server. */
  readonly local: boolean
  refuseForeign(request: Addressed): void
}

/** A request as the router hands it over. */
export interface Arrival {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly params: { readonly [name: string]: string }
  readonly query: unknown
}

type Handler = (arrival: Arrival) => Promise<void>

const nobody: Known = { identity: { principal: 'nobody', tenant: 'none', permissions: [] } }
/** Whoever came over TLS once comes no other way for a year. */
const secureForAYear = 'max-age=31536000'
const idForm = /^[A-Za-z0-9._:-]{1,200}$/

/** One route as a function of a request; it answers whatever happens, and never rejects. */
export function serveRoute(route: Route, house: House): Handler {
  const checkQuery = memberCheck('The query', route.query ?? {})
  const checkBody = memberCheck('The body', route.body?.members ?? {}, route.body?.required)
  const handle = async (arrival: Arrival, visit: Visit): Promise<Answer> => {
    const { service, limits, local } = house
    const { headers } = arrival.request
    const known = await identify(route, arrival.request, house, visit.gone)
    const { identity } = known
    const params = checkedParams(route, arrival.params)
    const query = checked(readQuery(arrival.query, route.query ?? {}), checkQuery)
    const bytes = route.method === 'GET' ? noBytes : await readBody(arrival.request, limits.bodyBytes)
    requireSigned(bytes, known)
    const body = checked(asObject('The body', parseBody(bytes, limits.bodyBytes) ?? {}), checkBody)
    const hold = (): void => house.hold(identity, arrival.response, visit)
    const { gone, stop } = visit
    const asked = { params, query, body, headers, identity, gone, stop, hold, limits, local }
    const answer = await route.handle(asked, service)
    if (route.access === 'key') recheckOpen(answer, house, arrival, visit, identity)
    return answer
  }
  return serve(house, route.path, handle)
}

/** What goes on for long after its head is out ends with the credential that it was asked with. */
function recheckOpen({ kind }: Answer, house: House, arrival: Arrival, visit: Visit, identity: Identity): void {
  if (kind === 'events') recheck(house, arrival, visit, identity)
  // A server that closes lets a download finish, so that `stop` does not end it.
  const end = (): void => void arrival.response.destroy()
  if (kind === 'content') recheck(house, arrival, { ...visit, end }, identity)
}

/** Answers a request with what the work gives or is refused for. */
export function serve(
  house: House,
  path: string,
  work: (arrival: Arrival, visit: Visit) => Answer | Promise<Answer>,
): Handler {
  const { door, log, limits } = house
  return async (arrival) => {
    const { request, response } = arrival
    const turn = door.turn(request, response)
    if (turn !== true && !(await turn)) return
    const visit = door.enter(response)
    const started = performance.now()
    const named = { method: request.method, path }
    const failed = (err: unknown): void => log.error({ ...named, err }, 'An answer broke off.')
    let answer: Answer
    try {
      if (door.closing) throw new ToolError('SERVICE_UNAVAILABLE', 'The service is about to stop.')
      house.refuseForeign(request)
      answer = await work(arrival, visit)
    } catch (thrown) {
      const error = asToolError(thrown)
      if (error.code === 'INTERNAL') log.error({ ...named, err: thrown }, 'A request could not be handled.')
      answer = problem(error)
    }
    if (door.closing && !response.headersSent) response.setHeader('connection', 'close')
    if ('encrypted' in request.socket) response.setHeader('strict-transport-security', secureForAYear)
    try {
      await send(response, answer, { heartbeatMs: limits.heartbeatMs, signal: visit.stop, failed })
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
  house: House,
  signal: AbortSignal,
): Promise<Known> {
  const local = access === 'local' && house.local
  if (access === 'open' || (local && request.headers.authorization === undefined)) return nobody
  const known = await authenticated(request, house, signal)
  if (local || permission === undefined || holds(known.identity, permission)) return known
  throw new ToolError('DENIED', `This needs the permission ${permission}.`, { details: { permission } })
}

/** Authenticates a request, after which its connection is no longer anonymous. Rejects with UNAUTHENTICATED or RATE_LIMITED. */
async function authenticated(
  { method = '', url = '', headers, socket }: IncomingMessage,
  { authenticate, door }: Pick<House, 'authenticate' | 'door'>,
  signal: AbortSignal,
): Promise<Known> {
  const known = await authenticate({ method, path: url, headers }, signal)
  door.authenticated(socket, known.identity)
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
