import type { Span, Tracer } from '@gantry/core'
import { timeOfCallId } from '../storage/calls/call-id.ts'
import type { Task } from './slot-scheduler.ts'

/**
 * Begins the trace of one task, below where its caller said that it belongs. The time in the queue stands beside it,
 * because nobody worked then; it is told once, when the call is handed out for the first time.
 */
export function taskSpan(tracer: Tracer | undefined, { claim, takenAt }: Task): Span | undefined {
  if (tracer === undefined) return undefined
  const { callId, call, deliveries, fence } = claim
  const taken = Date.now() - (performance.now() - takenAt)
  const submitted = timeOfCallId(callId)
  if (deliveries === 1 && submitted !== undefined) {
    tracer.start('task.queue', call.trace, { startedAt: Math.min(submitted, taken) }).end(undefined, taken)
  }
  const facts = {
    ...{ 'gantry.call_id': callId, 'gantry.tool': call.tool, 'gantry.tenant': call.identity.tenant },
    ...{ 'gantry.delivery': deliveries, 'gantry.fence': fence },
  }
  const span = tracer.start('gantry.task', call.trace, { kind: 'consumer', facts, startedAt: taken })
  span.child('task.consume', { startedAt: taken }).end()
  return span
}
