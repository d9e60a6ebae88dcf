import type { Result } from '@gantry/contract'
import type { Backend } from '../backends/backend.ts'
import type { Span, Tracer } from '../tracing/tracer.ts'
import type { CallRequest } from './ports.ts'

/** The stages of a call, as they are named in its trace. */
export type TracedStage =
  | 'lookup'
  | 'validate-input'
  | 'authorize'
  | 'resolve'
  | 'execute'
  | 'normalize'
  | 'validate-output'
  | 'record'

/**
 * The trace of one run: a span for the call, below it one for each stage, and below `execute` one for each attempt.
 * Stages follow each other, so that the beginning of one is the end of the one before.
 */
export interface RunTrace {
  /** Begins a stage; the code says what ended the one before, when it did not end well. */
  stage(name: TracedStage, code?: string): void
  attempt(backend: Backend, count: number): Span
  end(result: Result): void
}

export function createRunTrace(tracer: Tracer, { traceparent, callId, identity }: CallRequest): RunTrace {
  const facts = { 'gantry.call_id': callId, 'gantry.tenant': identity.tenant }
  const call = tracer.start('gantry.call', traceparent, { facts })
  let stage: Span = call
  return {
    stage(name, code) {
      if (stage !== call) stage.end(code)
      stage = call.child(`call.${name}`)
    },
    attempt: ({ kind, name }, count) =>
      stage.child('call.attempt', {
        facts: { 'gantry.backend': `${kind}:${name}`, 'gantry.attempt': count },
        ...(kind === 'local' ? {} : { kind: 'client' }),
      }),
    end({ tool, status, error, attempts }) {
      if (stage !== call) stage.end()
      // Only a tool that was found is named: what a caller called it may be anything.
      if (tool !== undefined) call.note({ 'gantry.tool': tool.id, 'gantry.tool.version': tool.version })
      call.note({ 'gantry.status': status, 'gantry.attempts': attempts })
      call.end(error?.code)
    },
  }
}
