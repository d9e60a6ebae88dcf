import { codes, type EffectRisk, type ErrorCode, type Stage } from '../codes.ts'
import type { ErrorCause, ErrorInfo, Issue } from '../error.ts'
import { anyObject, dialect, every, flag, type Shape, text } from './shape.ts'

export const codeNames = Object.keys(codes) as readonly ErrorCode[]

const stages = every<Stage>()([
  ...(['lookup', 'validate-input', 'authorize', 'resolve', 'execute', 'normalize', 'validate-output'] as const),
  ...(['admit', 'record', 'define', 'chain', 'code', 'internal'] as const),
])

const cause = {
  type: 'object',
  description: 'Where a failure came from, as far as it may be shown.',
  properties: { name: text, message: text, code: text, cause: { $ref: '#/$defs/cause' } },
  required: ['name', 'message'],
} as const satisfies Shape<ErrorCause>

const error = {
  type: 'object',
  description:
    'Why a call failed. Unknown members are allowed, so that old readers take newer errors; a new code raises the version.',
  properties: {
    code: { enum: codeNames },
    message: text,
    stage: { enum: stages },
    retryable: { ...flag, description: 'The same call, sent again unchanged, may succeed.' },
    effect: { enum: every<EffectRisk>()(['none', 'possible']), description: 'What the call may have changed.' },
    details: anyObject,
    cause: { $ref: '#/$defs/cause' },
    exception: { const: true, description: 'The tool threw, instead of reporting that it failed.' },
  },
  required: ['code', 'message', 'stage', 'retryable', 'effect'],
} as const satisfies Shape<ErrorInfo>

/** One thing wrong with a value, as in `details.issues` and in warnings. */
export const issue = {
  type: 'object',
  properties: { path: text, schemaPath: text, keyword: text, message: text },
  required: ['path', 'message'],
} as const satisfies Shape<Issue>

/** What every document that carries an error needs. */
export const errorDefs = { cause, error } as const

export const errorSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:error',
  title: 'Error',
  $ref: '#/$defs/error',
  $defs: errorDefs,
} as const
