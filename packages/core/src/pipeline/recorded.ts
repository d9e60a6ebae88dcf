import { codes, type ErrorInfo, type JsonObject, type Result, type Stage, ToolError } from '@gantry/contract'
import { attempt } from './attempt.ts'
import { asksApproval } from './authorize.ts'
import type { PreparedTool } from './prepare.ts'
import type { Target } from './resolve.ts'
import type { Run } from './run.ts'

/** What came of a call the last time. Whoever runs it again with this runs everything but the tool. */
export type Recorded = Pick<Result, 'output' | 'content' | 'error'>

/** As `authorize`, but nobody is asked: that somebody would be is a warning, and the record stands for his answer. */
export async function authorizeDry(run: Run, tool: PreparedTool, args: JsonObject): Promise<void> {
  if (!(await asksApproval(run, tool, args))) return
  run.warn({ code: 'APPROVAL_REQUIRED', message: `${tool.entry.id} would wait for somebody to approve it.` })
}

/**
 * Stands in the place of `execute` and `normalize`: leaves on the run what was recorded, or throws the failure that was.
 * Null means that nothing is known of such a call, and then nothing is made up: OUTCOME_UNKNOWN, and nothing was run.
 */
export function standIn(run: Run, { entry }: PreparedTool, recorded: Recorded | null): void {
  run.check()
  if (recorded === null || neverRan(recorded.error)) {
    throw new ToolError('OUTCOME_UNKNOWN', `There is no record of what ${entry.id} answers; it was not run.`, {
      effect: 'none',
    })
  }
  run.output = recorded.output
  run.content = recorded.content
  // Whether the output fits is for the schema of today to say.
  if (recorded.error !== undefined && recorded.error.stage !== 'validate-output') throw failureFrom(recorded.error)
}

/** Whether a dry run has the journal of a program to run it over. */
export function isReplayed(run: Run, { backend }: Target): boolean {
  return backend.kind === 'program' && run.request.program !== undefined
}

/** Runs a program over its journal, which answers whatever it asks for, and makes nothing of it. */
export function rerun(run: Run, tool: PreparedTool, target: Target, args: JsonObject): unknown {
  run.check()
  return attempt(run, tool, target, args, {})
}

const before: readonly Stage[] = ['lookup', 'validate-input', 'authorize', 'resolve', 'admit']

/** A call that was refused says nothing of what its tool would have done. */
function neverRan(error: ErrorInfo | undefined): boolean {
  return error !== undefined && before.includes(error.stage)
}

/** A record may be of another version of Gantry, with codes that this one does not know. */
function failureFrom({ code, message, stage, retryable, effect, details, cause, exception }: ErrorInfo): ToolError {
  const facts = { ...(details === undefined ? {} : { details }), ...(exception === true ? { exception } : {}) }
  const reason = cause === undefined ? {} : { cause: Object.assign(new Error(cause.message), { name: cause.name }) }
  const known = Object.hasOwn(codes, code) ? code : 'BACKEND_FAILED'
  return new ToolError(known, message, { stage, retryable, effect, ...facts, ...reason })
}
