import { codes, type Json, type Result, type ResultTool, type ToolError, type Usage } from '@gantry/contract'
import type { Measured } from '../backends/backend.ts'
import { copyJson } from '../json/copy.ts'
import { errorInfo } from './failure.ts'
import type { Run } from './run.ts'
import type { Written } from './written.ts'

const empty: readonly never[] = Object.freeze([])
const byTimer: Usage['enforced'] = Object.freeze({ wallMs: 'timer' })
const byNothing: Usage['enforced'] = Object.freeze({})

/** The Result of a run, from what the stages left on it and what ended it. */
export function resultOf(run: Run, failure: ToolError | undefined): Result {
  const { ports, tool, backend } = run
  const durationMs = Math.max(0, Math.round((ports.clock.monotonic() - run.startedMonotonic) * 1000) / 1000)
  const result: Mutable<Result> = {
    callId: run.request.callId,
    tool: tool?.resultTool as ResultTool,
    backend: { kind: backend?.kind ?? '', name: backend?.name ?? '' },
    status: failure === undefined ? 'ok' : statusOf(failure),
    output: run.output,
    content: run.content,
    warnings: run.warnings,
    artifacts: empty,
    effects: empty,
    usage: { wallMs: durationMs, enforced: run.timed ? byTimer : byNothing },
    attempts: run.attempts,
    startedAt: ports.clock.iso(run.startedAt),
    durationMs,
  }
  // One literal for all Results keeps calls fast; what there is not goes again, which only refused calls pay for.
  if (tool === undefined) delete result.tool
  if (backend === undefined) delete result.backend
  if (run.measured !== undefined) addMeasured(run, result, run.measured, failure)
  if (run.written !== undefined) addWritten(result, run.written)
  return failure === undefined ? result : { ...result, ...endOf(run, result, failure) }
}

/** What was measured where the work was done stands in for what the pipeline saw from outside. */
function addMeasured(
  run: Run,
  result: Mutable<Result>,
  { runtime, usage, partial, program, warnings }: Measured,
  failure: ToolError | undefined,
): void {
  // A call whose time ran out only while its messages were on their way was not stopped before its output.
  if (partial !== undefined && failure !== undefined && failure === run.stopped)
    result.output = partialOutput(run, partial)
  if (runtime !== undefined) result.runtime = runtime
  if (usage !== undefined) result.usage = usage
  if (program !== undefined) result.program = program
  if (warnings !== undefined && warnings.length > 0) result.warnings = [...result.warnings, ...warnings]
}

/** What is safe is an effect; of what is not, the warnings tell. A file is an artifact of the result as well. */
function addWritten(result: Mutable<Result>, written: Written): void {
  result.effects = written.effects()
  result.artifacts = result.effects.flatMap((effect) => (effect.kind === 'file' ? [effect.artifact] : []))
  result.warnings = [...result.warnings, ...written.warnings()]
}

/** Held to the same limits as a whole one, and searched for secrets like it; what does not fit is left out. */
function partialOutput(run: Run, partial: Json): Json {
  try {
    const copied = copyJson(partial, { ...run.tool?.resultCopy, dropped: { count: 0 } })
    return run.redactor?.value(copied) ?? copied
  } catch {
    return null
  }
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

function endOf(run: Run, { usage }: Result, failure: ToolError): Pick<Result, 'error' | 'usage'> {
  const error = errorInfo(run, failure)
  return { error, usage: failure.code === 'TIMEOUT' ? { ...usage, hit: usage.hit ?? 'wallMs' } : usage }
}

/** A ToolError of another version of Gantry may have a code that this one does not know. */
function statusOf({ code }: ToolError): Exclude<Result['status'], 'ok'> {
  return Object.hasOwn(codes, code) ? codes[code].status : 'failed'
}
