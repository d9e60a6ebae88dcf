import type { Call, TraceContext } from '../call.ts'
import { anyObject, dialect, type Shape, text, time } from './shape.ts'

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
