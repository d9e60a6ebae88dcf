import { codes, type Result, type ToolError, type Usage } from '@gantry/contract'
import { errorInfo } from './failure.ts'
import type { Run } from './run.ts'

const empty: readonly never[] = Object.freeze([])
const byTimer: Usage['enforced'] = Object.freeze({ wallMs: 'timer' })
const byNothing: Usage['enforced'] = Object.freeze({})

/** The Result of a run, from what the stages left on it and what ended it. */
export function resultOf(run: Run, failure: ToolError | undefined): Result {
  const { ports } = run
  const durationMs = Math.max(0, Math.round((ports.clock.monotonic() - run.startedMonotonic) * 1000) / 1000)
  const result: Result = {
    ...headOf(run),
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
  return failure === undefined ? result : { ...result, ...endOf(run, result, failure) }
}

/** What a reader looks for first: which call, which tool, where it ran. */
function headOf({ request, tool, backend }: Run): Pick<Result, 'callId' | 'tool' | 'backend'> {
  const { callId } = request
  if (tool === undefined) return { callId }
  if (backend === undefined) return { callId, tool: tool.resultTool }
  return { callId, tool: tool.resultTool, backend: { kind: backend.kind, name: backend.name } }
}

function endOf(run: Run, { usage }: Result, failure: ToolError): Pick<Result, 'error' | 'usage'> {
  const error = errorInfo(run, failure)
  return { error, usage: failure.code === 'TIMEOUT' ? { ...usage, hit: 'wallMs' } : usage }
}

/** A ToolError of another version of Gantry may have a code that this one does not know. */
function statusOf({ code }: ToolError): Exclude<Result['status'], 'ok'> {
  return Object.hasOwn(codes, code) ? codes[code].status : 'failed'
}
