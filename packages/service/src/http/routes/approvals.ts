import type { Verdict } from '../../storage/approvals/approvals.ts'
import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { checked } from '../route.ts'
import { pageOf, pageQuery, ref } from '../schemas.ts'

const base = { tag: 'approvals', access: 'key' } as const

/** The records check who may see and decide, because that depends on each approval. */
export const approvalRoutes: readonly Route[] = [
  {
    ...base,
    id: 'listApprovals',
    method: 'GET',
    path: '/v1/approvals',
    summary: 'Calls that wait for approval, newest first: those that you may decide on, and your own.',
    query: {
      state: { enum: ['open', 'all'], description: '`open` when absent; `all` for decided ones too.' },
      ...pageQuery,
    },
    answers: { 200: { description: 'A page of approvals.', schema: pageOf('Approval') } },
    errors: ['INPUT_INVALID'],
    async handle({ query, identity }, service) {
      return json(await service.approvals.list(query, identity))
    },
  },
  {
    ...base,
    id: 'getApproval',
    method: 'GET',
    path: '/v1/approvals/:id',
    summary: 'One approval, with the arguments of its call.',
    query: { full: { enum: ['true', 'false'], description: 'Shows long texts whole.' } },
    answers: { 200: { description: 'The approval.', schema: ref('Approval') } },
    errors: ['NOT_FOUND', 'DENIED'],
    async handle({ params: { id = '' }, query: { full }, identity }, service) {
      return json(await service.approvals.get(id, identity, { full: full === 'true' }))
    },
  },
  {
    ...base,
    id: 'decideApproval',
    method: 'POST',
    path: '/v1/approvals/:id',
    summary: 'Approve or deny a call of another principal; it goes on at once. It is decided once.',
    body: {
      members: {
        decision: { enum: ['approve', 'deny'] },
        reason: { type: 'string', minLength: 1, maxLength: 2_000, description: 'Shown to the caller, and audited.' },
      },
      required: ['decision'],
    },
    answers: { 200: { description: 'The current approval.', schema: ref('Approval') } },
    errors: ['NOT_FOUND', 'DENIED', 'INPUT_INVALID'],
    async handle({ params: { id = '' }, body, identity }, service) {
      return json(await service.approvals.decide(id, checked<Verdict>(body), identity))
    },
  },
]
