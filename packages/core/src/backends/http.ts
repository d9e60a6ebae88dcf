import { type Tool, ToolError } from '@gantry/contract'
import type { EgressRequest } from '../egress/egress.ts'
import { fetchSecrets } from '../ids/secret-reference.ts'
import type { Backend, BackendCall, BackendContext, BackendHost, Health } from './backend.ts'
import { type Plan, readBinding } from './http/binding.ts'
import { refuseConfig } from './http/check.ts'
import { statusFailure } from './http/failure.ts'
import { createExcerpt } from './http/media.ts'
import { type HttpOptions, readOptions, type Settings } from './http/options.ts'
import { urlBelow } from './http/parameters.ts'
import { draftRequest, type Fixed, fixedOf, type SealedRequest, sealRequest } from './http/request.ts'
import { isStreaming, readingOf, readStream, readWhole } from './http/response.ts'

export type { HttpOptions } from './http/options.ts'

/**
 * Reaches tools that are requests to one HTTP provider; each tool's binding says how its arguments become the request.
 * - Life: `attach` takes the guard through which everything leaves; nothing connects before the first call.
 * - Concurrency: any number of calls; they share nothing but the guard's connections.
 * - Cancellation: the request, or the reading of its answer, ends with the call's signal and the connection is let go.
 * - Errors: CONFIG_INVALID for wrong options or a wrong binding, INPUT_INVALID for arguments that cannot be sent as it
 *   says, and what the guard and the status of the answer say.
 * - Ownership: secrets are asked for once a call and not kept; `close` only refuses further calls.
 */
export function http(options: HttpOptions): Backend {
  const settings = readOptions(options)
  const { name, tools } = settings
  const scope = scopeOf(settings)
  const plans = new WeakMap<object, Prepared>()
  let host: BackendHost | undefined
  let closed = false

  const hostOf = (): BackendHost => {
    if (host !== undefined && !closed) return host
    const why = closed ? 'is closed' : 'is not attached to an executor'
    throw new ToolError('BACKEND_UNAVAILABLE', `The backend ${name} ${why}.`, { retryable: false })
  }
  const planOf = ({ binding, tool }: BackendCall): Prepared => {
    const known = plans.get(binding)
    if (known !== undefined) return known
    const plan = planFor(settings, binding, tool)
    const prepared = { plan, fixed: fixedOf(plan, settings) }
    plans.set(binding, prepared)
    return prepared
  }
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

/** Reads a binding; one that names an origin which the configuration of the backend does not is refused. */
function planFor({ name, origins }: Settings, binding: object, tool: Pick<Tool, 'namespace' | 'name'>): Plan {
  const id = `${tool.namespace}:${tool.name}`
  const plan = readBinding(binding, id)
  if (plan.base !== undefined && !origins.has(plan.base.origin)) {
    const message = `names the origin ${plan.base.origin}, which is not among the origins of the backend ${name}`
    refuseConfig(`The http binding of ${id}`, [{ path: '/baseUrl', message }])
  }
  return plan
}

/** A binding, and what the configuration adds to its requests. */
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
 * One call. The arguments are placed first, so that a call which cannot be sent asks for no secret; then the
 * configuration adds its part with its secrets, and the guard sends it all. A status that is no success becomes an
 * error; any other answer is read as the binding or its media type says: whole, or by a generator of chunks.
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
  if (status < 200 || status > 299) throw await statusFailure(settings.name, plan.method, response, excerpt)
  const reading = readingOf(plan.response, response)
  if (isStreaming(reading)) return readStream(reading, response, excerpt)
  return readWhole(reading, response, await response.bytes(), excerpt)
}

const none: ReadonlyMap<string, string> = new Map()
const plainExcerpt = createExcerpt([])

/** Where the tool stands in a trace, unless the configuration says otherwise. */
function withTrace(headers: SealedRequest['headers'], { traceparent }: BackendContext): SealedRequest['headers'] {
  return traceparent === undefined ? headers : { traceparent, ...headers }
}

/** Basic credentials are made of secrets, and look like none of them. */
function concealBasic(authorization = '', context: BackendContext): void {
  const basic = /^Basic (.+)$/.exec(authorization)?.[1]
  if (basic !== undefined) context.conceal(basic)
}

/** The call's own time bounds how long an answer may take, so the guard sets no other. */
function scopeOf({ name, own, redirects, maxBytes }: Settings): Scope {
  const bounds = { redirects, headersMs: 0, idleMs: 0, ...(maxBytes === undefined ? {} : { maxBytes }) }
  return { owner: `http:${name}`, own, ...bounds }
}

async function publish(host: BackendHost, tools: readonly Tool[]): Promise<void> {
  const { refused } = await host.publish(tools)
  for (const { name, reason } of refused)
    host.report({ kind: 'log', message: `The tool ${name} is refused: ${reason}` })
}

/** Up when it answers, with whatever that is not its own failure; asked with HEAD, then with GET by those without. */
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
    return { status: 'down', message: error instanceof Error ? error.message : 'It cannot be reached.' }
  }
  return { status: 'down', message: `It answers ${status}.` }
}
