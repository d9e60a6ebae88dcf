import { type Result, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { CallContext, resolveSecrets } from './context.ts'
import { errorInfo, failureOf } from './failure.ts'
import { type LookupAnswer, type LookupFunction, lookup, type PreparedTool } from './lookup.ts'
import { normalize } from './normalize.ts'
import { resultOf } from './pipeline.ts'
import type { CallRequest, Ports } from './ports.ts'
import { Run } from './run.ts'
import { validateOutput } from './validate.ts'

/** The outcome of an earlier call: its Result, absent because it never ran, or unknown. */
export type Reconciled =
  | { readonly state: 'found'; readonly result: Result }
  | { readonly state: 'absent' }
  | { readonly state: 'unknown'; readonly reason: string }

/**
 * Looks up the outcome of the call with an idempotency key, within the timeout of a call. Never rejects: any failure
 * leaves the outcome unknown. A found output is normalized, validated and redacted like any other. No permission is
 * checked, because the call was authorized when it began.
 */
export async function reconcileCall(key: string, request: CallRequest, ports: Ports): Promise<Reconciled> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run, { finds: () => true, sees: () => false })
    const tool = found instanceof Promise ? await found : found
    const answer = await ask(run, tool, key)
    if (answer === undefined)
      return { state: 'unknown', reason: `The lookup of ${tool.entry.id} does not know the key.` }
    if (!answer.found) return { state: 'absent' }
    return await foundResult(run, tool, answer.output)
  } catch (error) {
    return { state: 'unknown', reason: reasonOf(run, error) }
  } finally {
    run.end()
  }
}

/** Why an outcome is unknown, without secrets. */
function reasonOf(run: Run, error: unknown): string {
  return errorInfo(run, failureOf(run, error)).message
}

async function ask(run: Run, tool: PreparedTool, key: string): Promise<LookupAnswer> {
  run.check()
  const { id, tool: definition } = tool.entry
  if (tool.lookup === undefined) throw new ToolError('OUTCOME_UNKNOWN', `${id} has no lookup function.`)
  const secrets = await resolveSecrets(run, definition.secrets ?? [])
  run.begun = true
  return known(await run.within(answerOf(run, tool.lookup, key, secrets)))
}

/** Async, so that a synchronous throw of the lookup becomes a rejection. */
async function answerOf(
  run: Run,
  lookup: LookupFunction,
  key: string,
  secrets: ToolContext['secrets'],
): Promise<LookupAnswer> {
  return lookup(key, new CallContext(run, 1, secrets))
}

/** Accepts only an explicit answer: treating anything else as absent would run the tool twice. */
function known(answer: LookupAnswer): LookupAnswer {
  if (answer === undefined || answer === null) return undefined
  if (answer.found === true || answer.found === false) return answer
  throw new ToolError('OUTPUT_INVALID', 'The lookup answered neither { found: true, output } nor { found: false }.')
}

/** An output that reports a failure, or is invalid, is an outcome of that call too. */
async function foundResult(run: Run, tool: PreparedTool, output: unknown): Promise<Reconciled> {
  let failure: ToolError | undefined
  try {
    normalize(run, tool, output)
    const fits = validateOutput(run, tool)
    if (fits instanceof Promise) await fits
  } catch (error) {
    failure = failureOf(run, error)
    if (run.stopped !== undefined) throw failure
  }
  return { state: 'found', result: resultOf(run, failure) }
}
