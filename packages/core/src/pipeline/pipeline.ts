import type { Result, ToolError } from '@gantry/contract'
import { authorize } from './authorize.ts'
import { execute } from './execute.ts'
import { failureOf, shownFailure } from './failure.ts'
import { lookup } from './lookup.ts'
import { normalize } from './normalize.ts'
import type { CallRequest, Ports } from './ports.ts'
import { recordEnd } from './record.ts'
import { resolve } from './resolve.ts'
import { resultOf } from './result.ts'
import { Run } from './run.ts'
import { validateInput } from './validate-input.ts'
import { validateOutput } from './validate-output.ts'

/**
 * One call, start to end; it never rejects. The order below is the contract, and docs/pipeline.md explains each line.
 * Only promises are awaited: most calls meet none before their tool, and waiting for nothing costs a tenth of a call.
 */
export async function runCall(request: CallRequest, ports: Ports): Promise<Result> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run)
    const tool = found instanceof Promise ? await found : found
    const checked = validateInput(run, tool)
    const args = checked instanceof Promise ? await checked : checked
    const allowed = authorize(run, tool, args)
    if (allowed instanceof Promise) await allowed
    const target = resolve(run, tool)
    const answer = execute(run, tool, target, args)
    const raw = answer instanceof Promise ? await answer : answer
    normalize(run, tool, raw)
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
  return finish(new Run(request, ports), reason)
}

/** Ends the run, records the outcome and tells whoever listens; after this nothing can change it. */
function finish(run: Run, failure: ToolError | undefined): Result | Promise<Result> {
  run.end(failure === undefined)
  const recorded = recordEnd(run, resultOf(run, failure))
  return recorded instanceof Promise
    ? recorded.then((result) => tell(run, result, failure))
    : tell(run, recorded, failure)
}

function tell(run: Run, result: Result, failure: ToolError | undefined): Result {
  const { events } = run.ports
  if (events.has('call:finished')) events.emit('call:finished', { result, identity: run.request.identity })
  if (failure !== undefined) run.request.failed?.(shownFailure(run, failure, result.error))
  return result
}
