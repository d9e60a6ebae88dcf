import type { PolicyTest } from '../../admission/policy/policy-control.ts'
import type { PolicyDocument } from '../../storage/policies.ts'
import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { checked } from '../route.ts'
import { ref } from '../schemas.ts'

const base = { tag: 'policy', access: 'key', permission: 'gantry:policy' } as const
const text = { type: 'string', minLength: 1, maxLength: 500 } as const
const texts = { type: 'array', items: text, maxItems: 1_000 } as const

export const policyRoutes: readonly Route[] = [
  {
    ...base,
    id: 'readPolicy',
    method: 'GET',
    path: '/v1/policy',
    summary: 'The policy that was set over the API, and the version that calls see. Needs gantry:tenants too.',
    answers: { 200: { description: 'The policy.', schema: ref('Policy') } },
    async handle({ identity }, { policy }) {
      return json(await policy.read(identity))
    },
  },
  {
    ...base,
    id: 'setPolicy',
    method: 'POST',
    path: '/v1/policy',
    summary: 'Replace the policy that was set over the API, for all tenants. It can only narrow what the file says.',
    body: {
      members: {
        rules: {
          type: 'array',
          items: { type: 'object' },
          description: 'As in the configuration; see docs/policy.md.',
        },
        default: { enum: ['allow', 'deny'], description: 'For calls that no rule matches; deny when absent.' },
      },
      required: ['rules'],
    },
    answers: { 200: { description: 'The policy in force.', schema: ref('Policy') } },
    errors: ['CONFIG_INVALID'],
    async handle({ body, identity }, { policy }) {
      return json(await policy.replace(checked<PolicyDocument>(body), identity))
    },
  },
  {
    ...base,
    id: 'testPolicy',
    method: 'POST',
    path: '/v1/policy/test',
    summary: 'Test the policy: the decision on a call, its rule and its reason. Nothing runs, and nothing is recorded.',
    body: {
      members: {
        tool: text,
        args: { type: 'object' },
        key: {
          ...text,
          description: 'The id of a live key: its caller is tested. Excludes the members below.',
        },
        principal: {
          ...text,
          description: 'The tested caller; the caller itself when neither this nor a tenant is named.',
        },
        tenant: { ...text, description: 'Another one than the caller’s needs gantry:tenants.' },
        permissions: {
          ...texts,
          description: 'When absent: those of the caller for the caller, none for another principal.',
        },
        roles: texts,
        tools: { ...texts, minItems: 1 },
      },
      required: ['tool'],
    },
    answers: { 200: { description: 'The decision.', schema: ref('PolicyAnswer') } },
    errors: ['TOOL_ID_INVALID', 'TOOL_NOT_FOUND', 'NOT_FOUND'],
    async handle({ body, identity, gone }, { policy }) {
      return json(await policy.test(checked<PolicyTest>(body), identity, gone))
    },
  },
]
