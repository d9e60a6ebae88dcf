import type { JsonSchema } from '@gantry/contract'
import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { ref } from '../schemas.ts'

const text = { type: 'string' } as const

const replay: JsonSchema = {
  type: 'object',
  description: 'What running a recorded call again, without any of its tools, came to.',
  properties: {
    callId: text,
    kind: { enum: ['call', 'chain', 'code'] },
    tool: text,
    decision: {
      enum: ['allow', 'ask', 'deny', 'unavailable', 'none'],
      description: 'What the policy of today says; `none` when it was not asked.',
    },
    same: { type: 'boolean', description: 'The outcome would be the same, as far as the record tells.' },
    differences: {
      type: 'array',
      items: { type: 'object', properties: { path: text, before: {}, after: {} }, required: ['path'] },
    },
    divergence: {
      type: 'object',
      description: 'Where it ended because what came next is not on record.',
      properties: { step: text, tool: text, reason: text },
      required: ['tool', 'reason'],
    },
    result: { anyOf: [ref('Result'), ref('ChainResult')] },
    warnings: { type: 'array', items: ref('Warning') },
  },
  required: ['callId', 'kind', 'tool', 'decision', 'same', 'differences', 'result', 'warnings'],
}

/** Runs recorded calls again without their tools. */
export const replayRoute: Route = {
  id: 'replayCall',
  method: 'POST',
  path: '/v1/calls/:id/replay',
  tag: 'calls',
  summary: 'Run a call that has ended again, with what is on record in the place of its tools, and say what differs.',
  access: 'key',
  permission: 'gantry:operate',
  answers: { 200: { description: 'What would be different today.', schema: replay } },
  errors: ['NOT_FOUND', 'INPUT_INVALID', 'DENIED', 'RATE_LIMITED', 'STORE_UNAVAILABLE'],
  async handle({ params: { id = '' }, identity, gone, hold }, service) {
    hold()
    return json(await service.replay(id, identity, gone))
  },
}
