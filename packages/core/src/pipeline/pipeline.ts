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

/** A call's Result, and the error behind it with its causes alive. */
export interface Outcome {
  readonly result: Result
  readonly failure: ToolError | undefined
}

/** One call, start to end; it never rejects. The order below is the contract, and docs/pipeline.md explains each line. */
export async function runCall(request: CallRequest, ports: Ports): Promise<Outcome> {
  const run = new Run(request, ports)
  try {
    const tool = lookup(run)
    const args = await validateInput(run, tool)
    await authorize(run, tool, args)
    const target = resolve(run, tool)
    const raw = await execute(run, tool, target, args)
    normalize(run, tool, raw)
    await validateOutput(run, tool)
    return finish(run, undefined)
  } catch (error) {
    return finish(run, failureOf(run, error))
  }
}

/** Gives a call that may not even start its outcome, on record like any other. */
export async function refuseCall(request: CallRequest, ports: Ports, reason: ToolError): Promise<Outcome> {
  return finish(new Run(request, ports), reason)
}

/** Ends the run, records the outcome and tells whoever listens; after this nothing can change it. */
function finish(run: Run, failure: ToolError | undefined): Outcome | Promise<Outcome> {
  run.end()
  const recorded = recordEnd(run, resultOf(run, failure))
  return recorded instanceof Promise
    ? recorded.then((result) => tell(run, result, failure))
    : tell(run, recorded, failure)
}

function tell(run: Run, result: Result, failure: ToolError | undefined): Outcome {
  const { events } = run.ports
  if (events.has('call:finished')) events.emit('call:finished', { result, identity: run.request.identity })
  return { result, failure: failure && shownFailure(run, failure, result.error) }
}
