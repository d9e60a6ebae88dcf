import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'

const tag = 'dead letters'
const base = { tag, access: 'key' } as const

export const deadLetterRoutes: readonly Route[] = [
  {
    ...base,
    id: 'listDeadLetters',
    method: 'GET',
    path: '/v1/dead-letters',
    summary: 'Calls and messages that could not be done, of tools that the caller may use, newest first.',
    query: pageQuery,
    answers: { 200: { description: 'A page of them.', schema: pageOf('DeadLetter') } },
    errors: ['INPUT_INVALID'],
    async handle({ query, identity }, service) {
      return json(await service.deadLetters(query, identity))
    },
  },
  {
    ...base,
    id: 'getDeadLetter',
    method: 'GET',
    path: '/v1/dead-letters/:id',
    summary: 'One dead letter; for those who hold gantry:operate with what was asked for, without secrets.',
    answers: { 200: { description: 'The dead letter.', schema: ref('DeadLetter') } },
    errors: ['NOT_FOUND'],
    async handle({ params: { id = '' }, identity }, service) {
      return json(await service.deadLetter(id, identity))
    },
  },
  {
    ...base,
    permission: 'gantry:operate',
    id: 'redriveDeadLetter',
    method: 'POST',
    path: '/v1/dead-letters/:id/redrive',
    summary: 'Hand the call in again, as its first caller; a second time names the same new call.',
    answers: {
      200: {
        description: 'The new call.',
        schema: { type: 'object', properties: { callId: { type: 'string' } }, required: ['callId'] },
        headers: { Location: 'Where the call is.' },
      },
    },
    errors: ['NOT_FOUND', 'TOOL_NOT_FOUND', 'INPUT_INVALID', 'DENIED'],
    async handle({ params: { id = '' }, identity }, service) {
      const { callId } = await service.redrive(id, identity)
      return json({ callId }, 200, { location: `/v1/calls/${callId}` })
    },
  },
  {
    ...base,
    permission: 'gantry:operate',
    id: 'discardDeadLetter',
    method: 'POST',
    path: '/v1/dead-letters/:id/discard',
    summary: 'Say that nothing more is to be done about it.',
    answers: { 204: { description: 'It is discarded.' } },
    errors: ['NOT_FOUND'],
    async handle({ params: { id = '' }, identity }, service) {
      await service.discard(id, identity)
      return { kind: 'empty', status: 204 }
    },
  },
]
