import { codes, type Json, type Result, type ResultTool, type ToolError, type Usage } from '@gantry/contract'
import type { Measured } from '../backends/backend.ts'
import { copyJson } from '../json/plain.ts'
import { authorize } from './authorize.ts'
import type { CallEffects } from './call-effects.ts'
import { execute } from './execute.ts'
import { errorInfo, failureOf, shownFailure, type Thrown, thrownBy } from './failure.ts'
import { lookup } from './lookup.ts'
import { normalize } from './normalize.ts'
import type { CallRequest, Ports } from './ports.ts'
import { authorizeDry, isReplayed, recordEnd, rerun, standIn } from './record.ts'
import { resolve } from './resolve.ts'
import { createRunTrace, Run } from './run.ts'
import { validateInput, validateOutput } from './validate.ts'

/**
 * One call, start to end; it never rejects. The order below is the contract, and docs/pipeline.md explains each line.
 * Only promises are awaited: most calls meet none before their tool, and a needless await costs a tenth of a call.
 */
export async function runCall(request: CallRequest, ports: Ports): Promise<Result> {
  const run = begin(request, ports)
  try {
    run.trace?.stage('lookup')
    const found = lookup(run)
    const tool = found instanceof Promise ? await found : found
    run.trace?.stage('validate-input')
    const checked = validateInput(run, tool)
    const args = checked instanceof Promise ? await checked : checked
    const { recorded } = request
    run.trace?.stage('authorize')
    const allowed = recorded === undefined ? authorize(run, tool, args) : authorizeDry(run, tool, args)
    if (allowed instanceof Promise) await allowed
    run.trace?.stage('resolve')
    const target = resolve(run, tool)
    run.trace?.stage('execute')
    const again = recorded !== undefined && isReplayed(run, target)
    if (recorded === undefined || again) {
      const answer = again ? rerun(run, tool, target, args) : execute(run, tool, target, args)
      const raw = answer instanceof Promise ? await answer : answer
      run.trace?.stage('normalize')
      normalize(run, tool, raw)
    } else standIn(run, tool, recorded)
    run.trace?.stage('validate-output')
    const fits = validateOutput(run, tool)
    if (fits instanceof Promise) await fits
    if (run.written !== undefined) await run.written.settled()
    return finish(run, undefined)
  } catch (error) {
    const failure = failureOf(run, error)
    if (run.written !== undefined) await run.written.settled()
    return finish(run, failure)
  }
}

/** The outcome of a call that is refused before it starts; audited like any other. */
export async function refuseCall(request: CallRequest, ports: Ports, reason: ToolError): Promise<Result> {
  return finish(begin(request, ports), reason)
}

/** A dry run is neither traced nor audited. */
function begin(request: CallRequest, ports: Ports): Run {
  const run = new Run(request, ports)
  if (ports.tracer !== undefined && request.recorded === undefined) run.trace = createRunTrace(ports.tracer, request)
  return run
}

/** Ends the run, audits the outcome and emits it. The outcome is final. */
function finish(run: Run, failure: ToolError | undefined): Result | Promise<Result> {
  run.end(failure === undefined)
  run.trace?.stage('record', failure?.code)
  const result = resultOf(run, failure)
  // A dry run is neither audited nor emitted as a finished call.
  if (run.request.recorded !== undefined) return tell(run, result, failure)
  const thrown = failure === undefined ? undefined : thrownBy(run, failure)
  if (thrown !== undefined) emitThrown(run, thrown)
  const recorded = recordEnd(run, result, thrown?.at)
  return recorded instanceof Promise
    ? recorded.then((result) => tell(run, result, failure))
    : tell(run, recorded, failure)
}

function emitThrown({ request, tool, ports: { events } }: Run, thrown: Thrown): void {
  request.onThrow?.(thrown)
  if (!events.has('call:threw')) return
  const { callId, identity, place } = request
  const within = place?.within === undefined ? {} : { parent: place.within }
  events.emit('call:threw', { callId, ...within, tool: tool?.entry.id ?? request.tool, identity, ...thrown })
}

function tell(run: Run, result: Result, failure: ToolError | undefined): Result {
  run.trace?.end(result)
  const { events } = run.ports
  const counts = run.request.recorded === undefined && events.has('call:finished')
  if (counts) events.emit('call:finished', { result, identity: run.request.identity })
  if (failure !== undefined) run.request.failed?.(shownFailure(run, failure, result.error))
  return result
}

const empty: readonly never[] = Object.freeze([])
const byTimer: Usage['enforced'] = Object.freeze({ wallMs: 'timer' })
const byNothing: Usage['enforced'] = Object.freeze({})

/** The Result of a run, from the state that its stages set and the error that ended it. */
export function resultOf(run: Run, failure: ToolError | undefined): Result {
  const { ports, tool, backend } = run
  const durationMs = Math.max(0, Math.round(ports.clock.elapsed(run.startedMonotonic, run.startedAt) * 1000) / 1000)
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
  // One object literal for all Results keeps calls fast; absent members are deleted, which only refused calls need.
  if (tool === undefined) delete result.tool
  if (backend === undefined) delete result.backend
  if (run.measured !== undefined) addMeasured(run, result, run.measured, failure)
  if (run.written !== undefined) addEffects(result, run.written)
  return failure === undefined ? result : { ...result, ...endOf(run, result, failure) }
}

/** Usage measured by the backend overrides the pipeline's own. */
function addMeasured(
  run: Run,
  result: Mutable<Result>,
  { runtime, usage, partial, program, warnings }: Measured,
  failure: ToolError | undefined,
): void {
  // A call that timed out while it waited for its messages already had its output.
  if (partial !== undefined && failure !== undefined && failure === run.stopped)
    result.output = partialOutput(run, partial)
  if (runtime !== undefined) result.runtime = runtime
  if (usage !== undefined) result.usage = usage
  if (program !== undefined) result.program = program
  if (warnings !== undefined && warnings.length > 0) result.warnings = [...result.warnings, ...warnings]
}

/** Safe effects are listed in the result, others become warnings. A file is also an artifact of the result. */
function addEffects(result: Mutable<Result>, written: CallEffects): void {
  result.effects = written.effects()
  result.artifacts = result.effects.flatMap((effect) => (effect.kind === 'file' ? [effect.artifact] : []))
  result.warnings = [...result.warnings, ...written.warnings()]
}

/** The partial output of a failed call, with the limits and redaction of a complete one; omitted when it exceeds them. */
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
