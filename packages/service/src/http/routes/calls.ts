import { type ErrorCode, type ErrorInfo, type JsonObject, type JsonSchema, ToolError } from '@gantry/contract'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import type { CallInput } from '../../storage/calls/call-store.ts'
import { type Answer, type AnswerHeaders, json, retryAfterText } from '../answer.ts'
import type { ParsedRequest, Route } from '../route.ts'
import { checked } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'
import type { Service } from '../service.ts'

/** The common members of calls, chains and programs; the limits are those of admission. */
const submissionMembers = {
  idempotencyKey: {
    type: 'string',
    minLength: 1,
    maxLength: 200,
    description: 'The same key of the same caller is the same call: it runs once, and every repeat has its outcome.',
  },
  waitMs: {
    type: 'integer',
    minimum: 0,
    description: 'How long to wait for the outcome before the answer is 202; 0 for not at all.',
  },
  priority: { type: 'integer', minimum: -100, maximum: 100, description: 'Higher is sooner.' },
  timeoutMs: { type: 'integer', minimum: 1, maximum: 2_147_483_647 },
  delayMs: {
    type: 'integer',
    minimum: 0,
    maximum: 2_592_000_000,
    description: 'Not before this much time has passed.',
  },
  deadline: {
    type: 'string',
    format: 'date-time',
    description: 'A call that has not begun by then ends with TIMEOUT.',
  },
  onCircuitOpen: {
    enum: ['fail', 'wait'],
    description:
      'While the circuit of the tool is open: CIRCUIT_OPEN at once, or wait for it as long as `deadline` allows. What the tool says when absent, else fail.',
  },
  callback: {
    type: 'string',
    maxLength: 2_048,
    description: 'The URL that the signed outcome is posted to; EGRESS_DENIED when it is not allowed.',
  },
} as const satisfies { [name: string]: JsonSchema }

const submissionHeaders = {
  'Idempotency-Key': 'Instead of the member `idempotencyKey`.',
  traceparent: 'The trace that the call belongs to, in the W3C format; an invalid one is ignored.',
}

const acceptedDoc = {
  description: 'The call is stored, and has not ended yet.',
  schema: ref('Accepted'),
  headers: { Location: 'The URL of the call.' },
}

/** Reads the common members and headers of calls, chains and programs. */
function submissionOf({ body, headers }: ParsedRequest): Omit<CallInput, 'kind' | 'tool' | 'args'> {
  const { waitMs: _wait, tool: _tool, args: _args, steps: _steps, input: _input, ...own } = body
  const { code: _code, language: _language, limits: _limits, check: _check, ...common } = own
  const key = keyOf(body, headers['idempotency-key'])
  const traceparent = readTraceparent(headers.traceparent)
  return {
    ...checked<Omit<CallInput, 'kind' | 'args'>>(common),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
}

function keyOf({ idempotencyKey }: JsonObject, header: string | string[] | undefined): string | undefined {
  const own = idempotencyKey as string | undefined
  if (header === undefined) return own
  const key = String(header)
  const message = own !== undefined && own !== key ? 'differs from the header Idempotency-Key' : undefined
  if (message === undefined && key !== '') return key
  const issues = [{ path: '/idempotencyKey', message: message ?? 'is empty in the header Idempotency-Key' }]
  throw new ToolError('PAYLOAD_INVALID', `The idempotency key ${issues[0]?.message}.`, { details: { issues } })
}

/** Submits a call and waits for its outcome; an admitted call outlives the request. */
async function submit(input: CallInput, request: ParsedRequest, service: Service): Promise<Answer> {
  const { identity, gone, stop, limits, body } = request
  const waitMs = waitTime(body.waitMs, limits)
  if (waitMs > 0) gone.throwIfAborted()
  let mayWait = false
  const hold = (): void => {
    request.hold()
    mayWait = true
  }
  const { callId, repeated } = await service.submit(input, identity, waitMs > 0 ? { waits: true, hold } : {})
  const location = { location: `/v1/calls/${callId}` }
  // A repeat without a slot for waiting is answered with the current state.
  const outcome = mayWait ? await service.wait(callId, identity, waitMs, stop) : undefined
  if (outcome !== undefined) return json(outcome, 200, { ...location, ...retryAfter(outcome.error) })
  if (waitMs === 0 && !repeated) {
    return json({ callId, state: (input.delayMs ?? 0) > 0 ? 'delayed' : 'queued' }, 202, location)
  }
  const { state, result } = await service.call(callId, identity)
  return result === undefined
    ? json({ callId, state }, 202, location)
    : json(result, 200, { ...location, ...retryAfter(result.error) })
}

/** The Retry-After header of an outcome that may be retried, for clients that do not read the body. */
function retryAfter(error: ErrorInfo | undefined): AnswerHeaders {
  const ms = error?.code === 'CIRCUIT_OPEN' ? error.details?.retryAfterMs : undefined
  return typeof ms === 'number' ? { 'retry-after': retryAfterText(ms) } : {}
}

/** The requested wait, or PAYLOAD_INVALID when it is too long. */
function waitTime(requested: unknown, { waitMs, maxWaitMs }: ParsedRequest['limits']): number {
  const given = typeof requested === 'number' ? requested : Math.min(waitMs, maxWaitMs)
  if (given <= maxWaitMs) return given
  const issues = [{ path: '/waitMs', message: `must be at most ${maxWaitMs}` }]
  throw new ToolError('PAYLOAD_INVALID', `waitMs ${issues[0]?.message}.`, { details: { issues } })
}

const eventRoute: Route = {
  id: 'followCall',
  method: 'GET',
  path: '/v1/calls/:id/events',
  tag: 'calls',
  summary:
    'What a call reports, as it comes, up to its end. A stream that ends without `done` or `error` is requested again.',
  access: 'key',
  query: { after: { type: 'integer', minimum: 0, description: 'Only events after this id.' } },
  headers: { 'Last-Event-ID': 'The same, as browsers send it when they ask again; it goes before `after`.' },
  answers: {
    200: {
      description: 'Server-sent events; the data of each is one.',
      type: 'text/event-stream',
      schema: ref('StreamEvent'),
    },
  },
  errors: ['NOT_FOUND', 'RATE_LIMITED'],
  async handle(request, service) {
    const { params, identity, stop } = request
    const after = lastSeen(request)
    request.hold()
    const events = await service.events(params.id ?? '', after, identity, stop)
    return { kind: 'events', status: 200, events }
  },
}

function lastSeen({ query, headers }: ParsedRequest): number {
  const header = headers['last-event-id']
  if (header === undefined || header === '') return typeof query.after === 'number' ? query.after : 0
  const id = /^[0-9]{1,16}$/.test(String(header)) ? Number(header) : Number.NaN
  if (Number.isSafeInteger(id)) return id
  throw new ToolError('PAYLOAD_INVALID', 'Last-Event-ID must be the id of an event, a whole number.')
}

const tag = 'calls'
const text = { type: 'string' } as const

/** The errors of admitting a call, a chain or a program. */
const callRefusals: readonly ErrorCode[] = [
  ...(['INPUT_INVALID', 'TOOL_ID_INVALID', 'TOOL_NOT_FOUND', 'DENIED', 'APPROVAL_REQUIRED'] as const),
  ...(['TOOL_QUARANTINED', 'CATALOG_STALE', 'IDEMPOTENCY_CONFLICT', 'RATE_LIMITED', 'POLICY_UNAVAILABLE'] as const),
  'EGRESS_DENIED',
]

const createCall: Route = {
  id: 'createCall',
  method: 'POST',
  path: '/v1/calls',
  tag,
  summary: 'Call a tool. The answer is its Result, whatever its status, or 202 when it takes longer than `waitMs`.',
  access: 'key',
  headers: submissionHeaders,
  body: {
    members: {
      tool: {
        ...text,
        minLength: 1,
        maxLength: 500,
        description: '`namespace:name`, with a version, a range or neither.',
      },
      args: { type: 'object', description: 'The arguments of the tool; empty when absent.' },
      schemaDigest: { ...text, description: 'Digest of the tool as the caller saw it; another one is CATALOG_STALE.' },
      ...submissionMembers,
    },
    required: ['tool'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('Result') }, 202: acceptedDoc },
  errors: callRefusals,
  handle(request, service) {
    const { tool, args } = request.body
    return submit({ kind: 'call', tool: String(tool), args: args ?? {}, ...submissionOf(request) }, request, service)
  },
}

const createChain: Route = {
  id: 'createChain',
  method: 'POST',
  path: '/v1/chains',
  tag,
  summary:
    'Run a chain of calls. Each step is recorded, so that another worker resumes the chain when its worker is lost.',
  access: 'key',
  headers: submissionHeaders,
  body: {
    members: { steps: ref('Chain'), input: { description: 'The value of `{{input}}`.' }, ...submissionMembers },
    required: ['steps'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('ChainResult') }, 202: acceptedDoc },
  errors: [...callRefusals, 'CHAIN_INVALID', 'REFERENCE_INVALID'],
  handle(request, service) {
    const { steps, input } = request.body
    const args = { steps, ...(input === undefined ? {} : { input }) }
    return submit({ kind: 'chain', args, ...submissionOf(request) }, request, service)
  },
}

const listCalls: Route = {
  id: 'listCalls',
  method: 'GET',
  path: '/v1/calls',
  tag,
  summary: 'Calls, newest first.',
  access: 'key',
  query: {
    ...pageQuery,
    state: { ...text, description: 'Only those in this state.' },
    tool: { ...text, maxLength: 500, description: 'Only those of this tool.' },
  },
  answers: { 200: { description: 'A page of calls.', schema: pageOf('CallView') } },
  errors: ['INPUT_INVALID'],
  async handle({ query, identity }, service) {
    return json(await service.calls(query, identity))
  },
}

const getCall: Route = {
  id: 'getCall',
  method: 'GET',
  path: '/v1/calls/:id',
  tag,
  summary: 'One call, with its result once it has ended.',
  access: 'key',
  query: {
    waitMs: { type: 'integer', minimum: 0, description: 'How long to wait for its end; not at all when absent.' },
    args: {
      enum: ['true', 'false'],
      description: 'Also its arguments without secrets, for its principal and for holders of gantry:operate.',
    },
  },
  answers: { 200: { description: 'The call.', schema: ref('CallView') } },
  errors: ['NOT_FOUND', 'RATE_LIMITED'],
  handle: look,
}

async function look(request: ParsedRequest, service: Service): Promise<Answer> {
  const { params, query, identity, stop, limits } = request
  const { id = '' } = params
  const waitMs = waitTime(query.waitMs ?? 0, limits)
  if (waitMs > 0) {
    request.hold()
    await service.wait(id, identity, waitMs, stop)
  }
  return json(await service.call(id, identity, { args: query.args === 'true' }))
}

const cancelCall: Route = {
  id: 'cancelCall',
  method: 'POST',
  path: '/v1/calls/:id/cancel',
  tag,
  summary: 'Cancel a call. A running call is requested to stop; a completed call is unchanged.',
  access: 'key',
  answers: { 200: { description: 'The current state of the call.', schema: ref('CallView') } },
  errors: ['NOT_FOUND', 'DENIED'],
  async handle({ params: { id = '' }, identity }, service) {
    return json(await service.cancel(id, identity))
  },
}

export const callRoutes: readonly Route[] = [createCall, listCalls, getCall, eventRoute, cancelCall, createChain]

/** The tool for programs that every executor has; its schema defines which of these members it accepts. */
const programTool = 'code:program'
const members = ['code', 'language', 'limits', 'check'] as const

export const codeRoute: Route = {
  id: 'runCode',
  method: 'POST',
  path: '/v1/code',
  tag: 'calls',
  summary:
    'Run a program over tools. The answer is its Result: its output is what the program returned. The outcome of each of its calls is recorded, so that another worker resumes it when its worker is lost.',
  access: 'key',
  headers: submissionHeaders,
  body: {
    members: {
      code: { type: 'string', minLength: 1, description: 'The program; `return` gives the output.' },
      language: {
        enum: ['javascript', 'typescript', 'python', 'workflow'],
        description: '`typescript` when absent.',
      },
      limits: { type: 'object', description: 'Ceilings: toolCalls, chainSteps, depth, parallel, wallMs, cpuMs, …' },
      check: { type: 'boolean', description: 'Whether the code is checked against the schemas of its tools first.' },
      ...submissionMembers,
    },
    required: ['code'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('Result') }, 202: acceptedDoc },
  errors: callRefusals,
  handle(request, service) {
    const args = Object.fromEntries(
      members.flatMap((name) => (name in request.body ? [[name, request.body[name]]] : [])),
    )
    return submit({ kind: 'call', tool: programTool, args, ...submissionOf(request) }, request, service)
  },
}

const replay: JsonSchema = {
  type: 'object',
  description: 'The result of replaying a recorded call without its tools.',
  properties: {
    callId: text,
    kind: { enum: ['call', 'chain', 'code'] },
    tool: text,
    decision: {
      enum: ['allow', 'ask', 'deny', 'unavailable', 'none'],
      description: 'The decision of the current policy; `none` when it was not evaluated.',
    },
    same: { type: 'boolean', description: 'The outcome would be the same, as far as the record tells.' },
    differences: {
      type: 'array',
      items: { type: 'object', properties: { path: text, before: {}, after: {} }, required: ['path'] },
    },
    divergence: {
      type: 'object',
      description: 'Where the replay ended because the next outcome is not on record.',
      properties: { step: text, tool: text, reason: text },
      required: ['tool', 'reason'],
    },
    result: { anyOf: [ref('Result'), ref('ChainResult')] },
    warnings: { type: 'array', items: ref('Warning') },
  },
  required: ['callId', 'kind', 'tool', 'decision', 'same', 'differences', 'result', 'warnings'],
}

/** Replays recorded calls. */
export const replayRoute: Route = {
  id: 'replayCall',
  method: 'POST',
  path: '/v1/calls/:id/replay',
  tag: 'calls',
  summary: 'Replay an ended call, with the record in place of its tools, and return the differences.',
  access: 'key',
  permission: 'gantry:operate',
  answers: { 200: { description: 'The differences under the current configuration.', schema: replay } },
  errors: ['NOT_FOUND', 'INPUT_INVALID', 'DENIED', 'RATE_LIMITED', 'STORE_UNAVAILABLE'],
  async handle({ params: { id = '' }, identity, gone, hold }, service) {
    hold()
    return json(await service.replay(id, identity, gone))
  },
}
