import type { JsonSchema } from '@gantry/contract'
import type { PolicyAnswer, PolicyView } from '../admission/policy/policy-views.ts'
import type { ObjectSchema } from './schemas.ts'

const text = { type: 'string' } as const
const texts = { type: 'array', items: text } as const
const count = { type: 'integer', minimum: 0 } as const
const time = { type: 'string', format: 'date-time' } as const
const anyObject = { type: 'object' } as const

const policy = {
  type: 'object',
  description: 'The policy as it is at work.',
  properties: {
    version: { ...text, description: 'Of the snapshot that calls see, as it stands in the audit.' },
    stored: {
      type: 'object',
      description: 'What was set over the API; absent while nothing was.',
      properties: { version: count, document: anyObject, createdAt: time, createdBy: text },
      required: ['version', 'document', 'createdAt', 'createdBy'],
    },
  },
  required: ['version'],
} as const satisfies ObjectSchema<PolicyView>

const policyAnswer = {
  type: 'object',
  description: 'What would be decided on a call, and why.',
  properties: {
    version: text,
    tool: text,
    effect: { enum: ['allow', 'deny', 'ask', 'unavailable'] },
    reason: text,
    rule: { ...text, description: 'The rule that decides; absent when none does.' },
    missing: { ...texts, description: 'Permissions that the tool asks for and the caller does not hold.' },
    floor: { ...text, description: 'The least isolation that a program of the call would get.' },
    approvers: { ...texts, description: 'Roles that may approve besides those who always may.' },
    exists: { type: 'boolean', description: 'Where false, a call ends with TOOL_NOT_FOUND.' },
    visible: { type: 'boolean', description: 'Whether discovery shows the tool to the caller.' },
    valid: { type: 'boolean', description: 'Where false, a call ends with INPUT_INVALID before this is decided.' },
  },
  required: ['version', 'tool', 'effect', 'reason', 'missing', 'exists', 'visible', 'valid'],
} as const satisfies ObjectSchema<PolicyAnswer>

/** The schemas of what is told of the policy. */
export const policySchemas: { readonly [name: string]: JsonSchema } = { Policy: policy, PolicyAnswer: policyAnswer }
