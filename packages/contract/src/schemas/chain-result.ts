import type { ChainResult, StepResult } from '../chain.ts'
import { resultDefs, statuses } from './result.ts'
import { amount, anyJson, dialect, every, type Shape, text, time } from './shape.ts'

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
