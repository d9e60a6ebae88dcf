import type { LogLevel } from '../stream.ts'
import { resultDefs } from './result.ts'
import { anyJson, count, dialect, every, text } from './shape.ts'

const result = { $ref: '#/$defs/result' } as const
const levels = every<LogLevel>()(['debug', 'info', 'warn', 'error'])
const number = { type: 'number' } as const

export const streamEventSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:stream-event',
  title: 'StreamEvent',
  description:
    'One event of a call; ids increase within it. Unknown members are allowed, so that old readers take newer events; a new kind raises the version.',
  type: 'object',
  properties: { id: count, callId: text },
  required: ['id', 'callId', 'kind'],
  oneOf: [
    {
      properties: { kind: { const: 'progress' }, progress: number, total: number, message: text },
      required: ['progress'],
    },
    { properties: { kind: { const: 'chunk' }, data: anyJson }, required: ['data'] },
    {
      properties: { kind: { const: 'log' }, level: { enum: levels }, message: text, data: anyJson },
      required: ['level', 'message'],
    },
    { properties: { kind: { const: 'done' }, result }, required: ['result'] },
    {
      properties: { kind: { const: 'error' }, error: { $ref: '#/$defs/error' }, result },
      required: ['error', 'result'],
    },
  ],
  $defs: resultDefs,
} as const
