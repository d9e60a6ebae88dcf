import type { ErrorCode } from '@gantry/contract'
import { type Answer, json } from '../answer.ts'
import type { Asked, Route } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'
import type { Service } from '../service.ts'
import { eventRoute } from './events.ts'
import { acceptedDoc, submissionHeaders, submissionMembers, submissionOf, submit, waitTime } from './submission.ts'

const tag = 'calls'
const text = { type: 'string' } as const

/** What the admission of a call, a chain or a program can refuse it for. */
export const callRefusals: readonly ErrorCode[] = [
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
      args: { type: 'object', description: 'What the tool is called with; nothing when absent.' },
      schemaDigest: { ...text, description: 'Digest of the tool as the caller saw it; another one is CATALOG_STALE.' },
      ...submissionMembers,
    },
    required: ['tool'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('Result') }, 202: acceptedDoc },
  errors: callRefusals,
  handle(asked, service) {
    const { tool, args } = asked.body
    return submit({ kind: 'call', tool: String(tool), args: args ?? {}, ...submissionOf(asked) }, asked, service)
  },
}

const createChain: Route = {
  id: 'createChain',
  method: 'POST',
  path: '/v1/chains',
  tag,
  summary: 'Run a chain of calls. Each step is recorded, so that a chain goes on where it was when its worker dies.',
  access: 'key',
  headers: submissionHeaders,
  body: {
    members: { steps: ref('Chain'), input: { description: 'What `{{input}}` stands for.' }, ...submissionMembers },
    required: ['steps'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('ChainResult') }, 202: acceptedDoc },
  errors: [...callRefusals, 'CHAIN_INVALID', 'REFERENCE_INVALID'],
  handle(asked, service) {
    const { steps, input } = asked.body
    const args = { steps, ...(input === undefined ? {} : { input }) }
    return submit({ kind: 'chain', args, ...submissionOf(asked) }, asked, service)
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
  answers: { 200: { description: 'A page of them.', schema: pageOf('CallView') } },
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
  },
  answers: { 200: { description: 'The call.', schema: ref('CallView') } },
  errors: ['NOT_FOUND', 'RATE_LIMITED'],
  handle: look,
}

async function look(asked: Asked, service: Service): Promise<Answer> {
  const { params, query, identity, stop, limits } = asked
  const { id = '' } = params
  const waitMs = waitTime(query.waitMs ?? 0, limits)
  if (waitMs > 0) {
    asked.hold()
    await service.wait(id, identity, waitMs, stop)
  }
  return json(await service.call(id, identity))
}

const cancelCall: Route = {
  id: 'cancelCall',
  method: 'POST',
  path: '/v1/calls/:id/cancel',
  tag,
  summary: 'Cancel a call. One that runs is told to end; one that has ended stays as it is.',
  access: 'key',
  answers: { 200: { description: 'The call as it is now.', schema: ref('CallView') } },
  errors: ['NOT_FOUND', 'DENIED'],
  async handle({ params: { id = '' }, identity }, service) {
    return json(await service.cancel(id, identity))
  },
}

export const callRoutes: readonly Route[] = [createCall, listCalls, getCall, eventRoute, cancelCall, createChain]
