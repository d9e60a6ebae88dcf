import type { Call, TraceContext } from '../call.ts'
import type { ChainCall, ChainParallel, ChainResult, StepResult } from '../chain.ts'
import { resultDefs, statuses } from './result.ts'
import { amount, anyJson, anyObject, dialect, every, positive, type Shape, text, time } from './shape.ts'
import { retry } from './tool.ts'

const trace = {
  type: 'object',
  properties: { traceparent: text, tracestate: text },
  required: ['traceparent'],
  additionalProperties: false,
} as const satisfies Shape<TraceContext>

export const callSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:call',
  title: 'Call',
  description:
    'One tool call as it crosses a process. Identity is never read from it. Unknown members are refused: what would be ignored must not look as if it held.',
  type: 'object',
  properties: {
    callId: { ...text, minLength: 1 },
    tool: { ...text, minLength: 1, description: '`namespace:name`, with a version, a range (`^1`) or neither.' },
    args: anyObject,
    idempotencyKey: text,
    schemaDigest: { ...text, description: 'Digest of the tool the caller saw; another one is CATALOG_STALE.' },
    session: { ...text, description: 'Key of an authenticated session record; not an identity by itself.' },
    priority: { type: 'number' },
    deadline: { ...time, description: 'After it the call is worthless.' },
    replyTo: text,
    trace,
  },
  required: ['callId', 'tool', 'args'],
  additionalProperties: false,
} as const satisfies Shape<Call> & { readonly [keyword: string]: unknown }

const closed = { additionalProperties: false } as const
const id = { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_-]*$', maxLength: 128 } as const
const when = { $ref: '#/$defs/condition' } as const
const parts = { type: 'array', items: when } as const

const comparisons = (['equals', 'notEquals', 'in', 'greaterThan', 'lessThan'] as const).map((operator) => ({
  type: 'object' as const,
  properties: { value: anyJson, [operator]: anyJson },
  required: ['value', operator],
  ...closed,
}))

const condition = {
  description: 'When a step runs: a value that must be truthy, or a comparison; strings may hold references.',
  anyOf: [
    { type: ['string', 'boolean'] },
    ...comparisons,
    { type: 'object', properties: { exists: text }, required: ['exists'], ...closed },
    { type: 'object', properties: { all: parts }, required: ['all'], ...closed },
    { type: 'object', properties: { any: parts }, required: ['any'], ...closed },
    { type: 'object', properties: { not: when }, required: ['not'], ...closed },
  ],
} as const

const call = {
  type: 'object',
  properties: {
    id,
    tool: { ...text, minLength: 1 },
    args: anyObject,
    usePrevious: { type: ['boolean', 'string'] },
    when,
    forEach: { type: ['array', 'string'], description: 'A list, or one reference to a list.' },
    concurrency: positive,
    timeoutMs: positive,
    retry,
    onError: {
      anyOf: [
        { enum: ['stop', 'continue'] },
        { type: 'object', properties: { output: anyJson }, required: ['output'], ...closed },
      ],
    },
  },
  required: ['tool'],
  ...closed,
} as const satisfies Shape<ChainCall>

const group = {
  type: 'object',
  properties: {
    id,
    parallel: { type: 'array', items: { $ref: '#/$defs/call' } },
    when,
    concurrency: positive,
  },
  required: ['parallel'],
  ...closed,
} as const satisfies Shape<ChainParallel>

export const chainSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:chain',
  title: 'Chain',
  description:
    'The steps of a chain. Unknown members are refused, so that a misspelt rule cannot be left out unseen. References are checked when the chain is read.',
  type: 'array',
  items: {
    if: { type: 'object', required: ['parallel'] },
    then: { $ref: '#/$defs/group' },
    else: { $ref: '#/$defs/call' },
  },
  $defs: { condition, call, group },
} as const

const error = { $ref: '#/$defs/error' } as const
const steps = { type: 'array', items: { $ref: '#/$defs/step' } } as const

const step = {
  type: 'object',
  properties: {
    id: text,
    tool: text,
    state: { enum: every<StepResult['state']>()(['ok', 'failed', 'skipped', 'pending']) },
    output: anyJson,
    error,
    results: { type: 'array', items: { $ref: '#/$defs/result' } },
    steps,
    elements: { type: 'array', items: { enum: ['ok', 'failed', 'pending'] } },
    durationMs: amount,
  },
  required: ['id', 'state', 'output', 'results', 'durationMs'],
} as const satisfies Shape<StepResult>

export const chainResultSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:chain-result',
  title: 'ChainResult',
  description: "A chain's one outcome. Unknown members are allowed, so that old readers take newer results.",
  type: 'object',
  properties: {
    chainId: text,
    status: { enum: statuses },
    output: anyJson,
    error,
    steps,
    startedAt: time,
    durationMs: amount,
  },
  required: ['chainId', 'status', 'output', 'steps', 'startedAt', 'durationMs'],
  $defs: { ...resultDefs, step },
} as const satisfies Shape<ChainResult> & { readonly [keyword: string]: unknown }
