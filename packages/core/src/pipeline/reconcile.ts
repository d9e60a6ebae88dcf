import { type Result, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { CallContext } from './context.ts'
import { lookup } from './lookup.ts'
import { normalize } from './normalize.ts'
import type { CallRequest, Ports } from './ports.ts'
import type { LookupAnswer, LookupFunction, PreparedTool } from './prepare.ts'
import { errorInfo, failureOf, resultOf } from './result.ts'
import { Run } from './run.ts'
import { resolveSecrets } from './secrets.ts'
import { validateOutput } from './validate.ts'

/** What became of an earlier run of a tool: its Result, nothing because it never was, or nobody can tell. */
export type Reconciled =
  | { readonly state: 'found'; readonly result: Result }
  | { readonly state: 'absent' }
  | { readonly state: 'unknown'; readonly reason: string }

/**
 * Asks a tool what came of the run under an idempotency key, within the time of a call; it never rejects, because
 * whatever goes wrong leaves the outcome unknown. What is found has the shape, the checks and the redaction of any
 * Result. The host asks about a call that was allowed when it began, so nobody is asked for permission.
 */
export async function reconcileCall(key: string, request: CallRequest, ports: Ports): Promise<Reconciled> {
  const run = new Run(request, ports)
  try {
    const found = lookup(run, { finds: () => true, sees: () => false })
    const tool = found instanceof Promise ? await found : found
    const answer = await ask(run, tool, key)
    if (answer === undefined) return { state: 'unknown', reason: `${tool.entry.id} does not know of the key.` }
    if (!answer.found) return { state: 'absent' }
    return await foundResult(run, tool, answer.output)
  } catch (error) {
    return { state: 'unknown', reason: reasonOf(run, error) }
  } finally {
    run.end()
  }
}

/** Says in one sentence, without secrets, why an outcome cannot be told. */
function reasonOf(run: Run, error: unknown): string {
  return errorInfo(run, failureOf(run, error)).message
}

async function ask(run: Run, tool: PreparedTool, key: string): Promise<LookupAnswer> {
  run.check()
  const { id, tool: definition } = tool.entry
  if (tool.lookup === undefined) throw new ToolError('OUTCOME_UNKNOWN', `${id} has no lookup to ask.`)
  const secrets = await resolveSecrets(run, definition.secrets ?? [])
  run.begun = true
  return known(await run.within(answerOf(run, tool.lookup, key, secrets)))
}

/** A lookup that throws at once, or ends after it was given up on, is the same to its caller as one that rejects. */
async function answerOf(
  run: Run,
  tell: LookupFunction,
  key: string,
  secrets: ToolContext['secrets'],
): Promise<LookupAnswer> {
  return tell(key, new CallContext(run, 1, secrets))
}

/** Only a plain yes or no counts: to take anything else for an absence would run the tool twice. */
function known(answer: LookupAnswer): LookupAnswer {
  if (answer === undefined || answer === null) return undefined
  if (answer.found === true || answer.found === false) return answer
  throw new ToolError('OUTPUT_INVALID', 'The lookup answered neither { found: true, output } nor { found: false }.')
}

/** An output that says the tool failed, or is no output, is as much an outcome of that run as any other. */
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
