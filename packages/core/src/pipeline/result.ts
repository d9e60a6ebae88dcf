import { codes, type Result, type ToolError, type Usage } from '@gantry/contract'
import { errorInfo } from './failure.ts'
import type { Run } from './run.ts'

const empty: readonly never[] = Object.freeze([])
const byTimer: Usage['enforced'] = Object.freeze({ wallMs: 'timer' })
const byNothing: Usage['enforced'] = Object.freeze({})

/** The Result of a run, from what the stages left on it and what ended it. */
export function resultOf(run: Run, failure: ToolError | undefined): Result {
  const { request, ports } = run
  const durationMs = Math.max(0, Math.round((ports.clock.monotonic() - run.startedMonotonic) * 1000) / 1000)
  const result: Mutable<Result> = {
    callId: request.callId,
    status: failure === undefined ? 'ok' : statusOf(failure),
    output: run.output,
    content: run.content,
    warnings: run.warnings,
    artifacts: empty,
    effects: run.effects,
    usage: { wallMs: durationMs, enforced: run.timed ? byTimer : byNothing },
    attempts: run.attempts,
    startedAt: ports.clock.iso(run.startedAt),
    durationMs,
  }
  if (run.tool !== undefined) result.tool = run.tool.resultTool
  if (run.backend !== undefined) result.backend = { kind: run.backend.kind, name: run.backend.name }
  if (failure !== undefined) result.error = errorInfo(run, failure)
  if (failure?.code === 'TIMEOUT') result.usage = { ...result.usage, hit: 'wallMs' }
  return result
}

/** A ToolError of another version of Gantry may have a code that this one does not know. */
function statusOf({ code }: ToolError): Exclude<Result['status'], 'ok'> {
  return Object.hasOwn(codes, code) ? codes[code].status : 'failed'
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
