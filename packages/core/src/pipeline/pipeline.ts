import type { Result, ToolError } from '@gantry/contract'
import { authorize } from './authorize.ts'
import { execute } from './execute.ts'
import { lookup } from './lookup.ts'
import { normalize } from './normalize.ts'
import type { CallRequest, Ports } from './ports.ts'
import { recordEnd } from './record.ts'
import { authorizeDry, isReplayed, rerun, standIn } from './recorded.ts'
import { resolve } from './resolve.ts'
import { failureOf, resultOf, shownFailure } from './result.ts'
import { createRunTrace, Run } from './run.ts'
import { validateInput, validateOutput } from './validate.ts'

/**
 * One call, start to end; it never rejects. The order below is the contract, and docs/pipeline.md explains each line.
 * Only promises are awaited: most calls meet none before their tool, and waiting for nothing costs a tenth of a call.
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

/** Gives a call that may not even start its outcome, on record like any other. */
export async function refuseCall(request: CallRequest, ports: Ports, reason: ToolError): Promise<Result> {
  return finish(begin(request, ports), reason)
}

/** A dry run is no call, and traced as little as it is recorded. */
function begin(request: CallRequest, ports: Ports): Run {
  const run = new Run(request, ports)
  if (ports.tracer !== undefined && request.recorded === undefined) run.trace = createRunTrace(ports.tracer, request)
  return run
}

/** Ends the run, records the outcome and tells whoever listens; after this nothing can change it. */
function finish(run: Run, failure: ToolError | undefined): Result | Promise<Result> {
  run.end(failure === undefined)
  run.trace?.stage('record', failure?.code)
  const result = resultOf(run, failure)
  // What ran no tool is no call: it is neither on record nor told to those who count calls.
  const recorded = run.request.recorded === undefined ? recordEnd(run, result) : result
  return recorded instanceof Promise
    ? recorded.then((result) => tell(run, result, failure))
    : tell(run, recorded, failure)
}

function tell(run: Run, result: Result, failure: ToolError | undefined): Result {
  run.trace?.end(result)
  const { events } = run.ports
  const counts = run.request.recorded === undefined && events.has('call:finished')
  if (counts) events.emit('call:finished', { result, identity: run.request.identity })
  if (failure !== undefined) run.request.failed?.(shownFailure(run, failure, result.error))
  return result
}
