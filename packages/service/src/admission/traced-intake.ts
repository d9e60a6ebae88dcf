import type { Tracer } from '@gantry/core'
import { traced } from '@gantry/core/internal/tracing/tracer'
import type { Intake } from './intake.ts'

/** Notes each call as it comes in, below the trace of its caller; whatever is done for the call later stands below that. */
export function tracedIntake(intake: Intake, tracer: Tracer | undefined): Intake {
  if (tracer === undefined) return intake
  return {
    ...intake,
    submit(input, identity, origin) {
      const broker = origin?.kind === 'broker' ? (origin.reply?.transport ?? 'broker') : undefined
      const door = broker ?? 'http'
      const span = tracer.start('gantry.submit', input.traceparent, {
        kind: broker === undefined ? 'server' : 'consumer',
        facts: { 'gantry.door': door, 'gantry.tenant': identity.tenant },
      })
      return traced(span, async () => {
        const submitted = await intake.submit({ ...input, traceparent: span.traceparent }, identity, origin)
        span.note({ 'gantry.call_id': submitted.callId, 'gantry.repeated': submitted.repeated })
        return submitted
      })
    },
  }
}
