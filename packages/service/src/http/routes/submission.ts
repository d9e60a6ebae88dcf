import { type ErrorInfo, type JsonObject, type JsonSchema, ToolError } from '@gantry/contract'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import type { CallInput } from '../../storage/call-input.ts'
import { type Answer, type AnswerHeaders, json } from '../answer.ts'
import { retryAfterText } from '../problems.ts'
import type { Asked } from '../route.ts'
import { ref } from '../schemas.ts'
import type { Service } from '../service.ts'

/** What calls, chains and programs have in common; the ceilings are those of the admission. */
export const submissionMembers = {
  idempotencyKey: {
    type: 'string',
    minLength: 1,
    maxLength: 200,
    description: 'The same key of the same caller is the same call: it runs once, and every repeat has its outcome.',
  },
  waitMs: {
    type: 'integer',
    minimum: 0,
    description: 'How long to wait for the outcome before the answer is 202; 0 for not at all.',
  },
  priority: { type: 'integer', minimum: -100, maximum: 100, description: 'Higher is sooner.' },
  timeoutMs: { type: 'integer', minimum: 1, maximum: 2_147_483_647 },
  delayMs: {
    type: 'integer',
    minimum: 0,
    maximum: 2_592_000_000,
    description: 'Not before this much time has passed.',
  },
  deadline: { type: 'string', format: 'date-time', description: 'After it the call is worthless.' },
  onCircuitOpen: {
    enum: ['fail', 'wait'],
    description:
      'While the circuit of the tool is open: CIRCUIT_OPEN at once, or wait for it as long as `deadline` allows. What the tool says when absent, else fail.',
  },
  callback: {
    type: 'string',
    maxLength: 2_048,
    description: 'Where the outcome is sent, signed; EGRESS_DENIED for where none may go.',
  },
} as const satisfies { [name: string]: JsonSchema }

export const submissionHeaders = {
  'Idempotency-Key': 'Instead of the member `idempotencyKey`.',
  traceparent: 'The trace that the call belongs to, as W3C writes it; what is none is ignored.',
}

export const acceptedDoc = {
  description: 'It is kept, and has not ended yet.',
  schema: ref('Accepted'),
  headers: { Location: 'Where the call is.' },
}

/** What the members and headers that calls, chains and programs have in common say. */
export function submissionOf({ body, headers }: Asked): Omit<CallInput, 'kind' | 'tool' | 'args'> {
  const { waitMs: _wait, tool: _tool, args: _args, steps: _steps, input: _input, ...own } = body
  const { code: _code, language: _language, limits: _limits, check: _check, ...common } = own
  const key = keyOf(body, headers['idempotency-key'])
  const traceparent = readTraceparent(headers.traceparent)
  return {
    ...(common as Omit<CallInput, 'kind' | 'args'>),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
}

function keyOf({ idempotencyKey }: JsonObject, header: string | string[] | undefined): string | undefined {
  const own = idempotencyKey as string | undefined
  if (header === undefined) return own
  const key = String(header)
  const message = own !== undefined && own !== key ? 'differs from the header Idempotency-Key' : undefined
  if (message === undefined && key !== '') return key
  const issues = [{ path: '/idempotencyKey', message: message ?? 'is empty in the header Idempotency-Key' }]
  throw new ToolError('PAYLOAD_INVALID', `The idempotency key ${issues[0]?.message}.`, { details: { issues } })
}

/** Hands a call in and waits for its outcome as long as it may; a call that is kept outlives the request. */
export async function submit(input: CallInput, asked: Asked, service: Service): Promise<Answer> {
  const { identity, gone, stop, limits, body } = asked
  const waitMs = waitTime(body.waitMs, limits)
  if (waitMs > 0) gone.throwIfAborted()
  let mayWait = false
  const hold = (): void => {
    asked.hold()
    mayWait = true
  }
  const { callId, repeated } = await service.submit(input, identity, waitMs > 0 ? { waits: true, hold } : {})
  const location = { location: `/v1/calls/${callId}` }
  // A repeat for which there is no place to wait is answered with what is known now.
  const outcome = mayWait ? await service.wait(callId, identity, waitMs, stop) : undefined
  if (outcome !== undefined) return json(outcome, 200, { ...location, ...retryAfter(outcome.error) })
  if (waitMs === 0 && !repeated) {
    return json({ callId, state: (input.delayMs ?? 0) > 0 ? 'delayed' : 'queued' }, 202, location)
  }
  const { state, result } = await service.call(callId, identity)
  return result === undefined
    ? json({ callId, state }, 202, location)
    : json(result, 200, { ...location, ...retryAfter(result.error) })
}

/** When an outcome says that the call may be made again later, as those who read no body look for it. */
function retryAfter(error: ErrorInfo | undefined): AnswerHeaders {
  const ms = error?.code === 'CIRCUIT_OPEN' ? error.details?.retryAfterMs : undefined
  return typeof ms === 'number' ? { 'retry-after': retryAfterText(ms) } : {}
}

/** The time to wait that a request asks for, or PAYLOAD_INVALID when it is too long. */
export function waitTime(asked: unknown, { waitMs, maxWaitMs }: Asked['limits']): number {
  const given = typeof asked === 'number' ? asked : Math.min(waitMs, maxWaitMs)
  if (given <= maxWaitMs) return given
  const issues = [{ path: '/waitMs', message: `must be at most ${maxWaitMs}` }]
  throw new ToolError('PAYLOAD_INVALID', `waitMs ${issues[0]?.message}.`, { details: { issues } })
}
