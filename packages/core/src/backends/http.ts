import { type Tool, ToolError } from '@gantry/contract'
import type { EgressRequest } from '../egress/egress.ts'
import { fetchSecrets } from '../ids/secret-reference.ts'
import { refuse } from '../options/options.ts'
import {
  type Backend,
  type BackendCall,
  type BackendContext,
  type BackendHost,
  type Health,
  planReader,
} from './backend.ts'
import { type Plan, readBinding } from './http/binding.ts'
import { statusFailure } from './http/failure.ts'
import { createExcerpt } from './http/media.ts'
import { type HttpOptions, readOptions, type Settings } from './http/options.ts'
import { urlBelow } from './http/parameters.ts'
import { draftRequest, type Fixed, fixedOf, type SealedRequest, sealRequest } from './http/request.ts'
import { isStreaming, readingOf, readStream, readWhole } from './http/response.ts'

export type { HttpOptions } from './http/options.ts'

/**
 * Calls tools as requests to one HTTP provider; the binding of a tool maps its arguments to the request.
 * - Lifecycle: `attach` receives the egress guard; nothing connects before the first call.
 * - Concurrency: any number of calls; they share only the connections of the guard.
 * - Cancellation: the request and the reading of its response end with the signal of the call, and the connection closes.
 * - Errors: CONFIG_INVALID for invalid options or an invalid binding, INPUT_INVALID for arguments that the binding cannot
 *   send, and the errors of the guard and of the response status.
 * - Ownership: secrets are fetched once per call and not kept; `close` only refuses further calls.
 */
export function http(options: HttpOptions): Backend {
  const settings = readOptions(options)
  const { name, tools } = settings
  const scope = scopeOf(settings)
  let host: BackendHost | undefined
  let closed = false

  const hostOf = (): BackendHost => {
    if (host !== undefined && !closed) return host
    const why = closed ? 'is closed' : 'is not attached to an executor'
    throw new ToolError('BACKEND_UNAVAILABLE', `The backend ${name} ${why}.`, { retryable: false })
  }
  const planOf = planReader((binding, tool): Prepared => {
    const plan = planFor(settings, binding, tool)
    return { plan, fixed: fixedOf(plan, settings) }
  })
  const backend: Backend = {
    kind: 'http',
    name,
    enforces: ['egress'],
    tidy: true,
    attach(given) {
      host = given
    },
    check: (binding, tool) => void planFor(settings, binding, tool),
    origin: (_args, { baseUrl }) => (typeof baseUrl === 'string' ? new URL(baseUrl).origin : undefined),
    call: (call, context) => answer({ hostOf, planOf, settings, scope, call, context }),
    health: async (signal) => healthOf(hostOf(), settings, signal),
    async close() {
      closed = true
    },
  }
  if (tools === undefined) return backend
  return { ...backend, discover: async () => publish(hostOf(), tools) }
}

/** Compiles a binding; refuses an origin that the configuration of the backend does not list. */
function planFor({ name, origins }: Settings, binding: object, tool: Pick<Tool, 'namespace' | 'name'>): Plan {
  const id = `${tool.namespace}:${tool.name}`
  const plan = readBinding(binding, id)
  if (plan.base !== undefined && !origins.has(plan.base.origin)) {
    const message = `names the origin ${plan.base.origin}, which is not among the origins of the backend ${name}`
    refuse(`http binding of ${id}`, [{ path: '/baseUrl', message }])
  }
  return plan
}

/** A compiled binding with the fixed parts of its requests. */
interface Prepared {
  readonly plan: Plan
  readonly fixed: Fixed
}

type Scope = Omit<EgressRequest, 'url' | 'signal'>

interface Exchange {
  readonly hostOf: () => BackendHost
  readonly planOf: (call: BackendCall) => Prepared
  readonly settings: Settings
  readonly scope: Scope
  readonly call: BackendCall
  readonly context: BackendContext
}

/**
 * Executes one call. The arguments are placed first, so that an invalid call fetches no secret; then the configuration
 * adds its fixed parts with their secrets, and the guard sends the request. A status outside 2xx becomes an error; any
 * other response is decoded by the binding or its media type: as a whole, or by a generator of chunks.
 */
async function answer({ hostOf, planOf, settings, scope, call, context }: Exchange): Promise<unknown> {
  const { egress } = hostOf()
  const { plan, fixed } = planOf(call)
  const draft = draftRequest(plan, fixed, call.args, context.idempotencyKey, call.tool.effect)
  const secrets = fixed.secrets.length === 0 ? none : await fetchSecrets(fixed.secrets, context.secret)
  const { url, method, headers, body } = sealRequest(draft, plan, settings, fixed, secrets)
  if (secrets.size > 0) concealBasic(headers.authorization, context)
  const excerpt = secrets.size === 0 ? plainExcerpt : createExcerpt([...secrets.values()])
  const only = call.tool.egress === undefined ? scope : { ...scope, only: call.tool.egress }
  const { signal, identity } = context
  const asked = { ...only, tenant: identity.tenant, url, method, headers: withTrace(headers, context), signal }
  const response = await egress.request(body === undefined ? asked : { ...asked, body })
  const { status } = response
  if (status < 200 || status > 299) {
    throw await statusFailure(settings.name, plan.method, response, excerpt, [...secrets.keys()])
  }
  const reading = readingOf(plan.response, response)
  if (isStreaming(reading)) return readStream(reading, response, excerpt)
  return readWhole(reading, response, await response.bytes(), excerpt)
}

const none: ReadonlyMap<string, string> = new Map()
const plainExcerpt = createExcerpt([])

/** Adds the `traceparent` of the call, unless the configuration sets the header. */
function withTrace(headers: SealedRequest['headers'], { traceparent }: BackendContext): SealedRequest['headers'] {
  return traceparent === undefined ? headers : { traceparent, ...headers }
}

/** Redacts basic credentials, which are derived from secrets but do not contain them literally. */
function concealBasic(authorization = '', context: BackendContext): void {
  const basic = /^Basic (.+)$/.exec(authorization)?.[1]
  if (basic !== undefined) context.conceal(basic)
}

/** The timeout of the call bounds the response, so the timeouts of the guard are disabled. */
function scopeOf({ name, own, redirects, maxBytes }: Settings): Scope {
  const bounds = { redirects, headersMs: 0, idleMs: 0, ...(maxBytes === undefined ? {} : { maxBytes }) }
  return { owner: `http:${name}`, own, ...bounds }
}

async function publish(host: BackendHost, tools: readonly Tool[]): Promise<void> {
  const { refused } = await host.publish(tools)
  for (const { name, reason } of refused)
    host.report({ kind: 'log', message: `The tool ${name} is refused: ${reason}` })
}

/** Up when the server answers with a status below 500; sends HEAD, then GET when HEAD fails. */
async function healthOf(host: BackendHost, settings: Settings, signal: AbortSignal): Promise<Health> {
  const url = urlBelow(settings.base, settings.healthPath, '')
  let status = 0
  try {
    for (const method of ['HEAD', 'GET']) {
      const response = await host.egress.request({ ...scopeOf(settings), url, method, signal })
      response.cancel()
      status = response.status
      if (status < 500) return { status: 'up' }
    }
  } catch (error) {
    return { status: 'down', message: error instanceof Error ? error.message : 'The server is unreachable.' }
  }
  return { status: 'down', message: `The server answered ${status}.` }
}
