import { type Issue, ToolError } from '@gantry/contract'
import { isStandardSchema, validateStandard } from '@gantry/json-schema'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'
import { describeIssue } from './validate-input.ts'

/** Checks the output against its schema. The result is kept either way: a warning, or for strict tools a failure. */
export function validateOutput(run: Run, tool: PreparedTool): void | Promise<void> {
  const { output: validator } = tool
  if (validator === undefined) return
  if (!isStandardSchema(validator)) {
    if (!validator.check(run.output)) judge(run, tool, validator.issues(run.output))
    return
  }
  const answer = validateStandard(validator, run.output)
  if (answer instanceof Promise) return run.within(answer).then((late) => judge(run, tool, issuesOf(late)))
  judge(run, tool, issuesOf(answer))
}

/** A vendor's checker may change the value it passes; the output stays what the tool gave. */
function issuesOf(outcome: object): readonly Issue[] {
  return 'issues' in outcome ? (outcome.issues as readonly Issue[]) : []
}

function judge(run: Run, { entry }: PreparedTool, issues: readonly Issue[]): void {
  if (issues.length === 0) return
  const message = `The output does not fit ${entry.key}: ${issues.slice(0, 3).map(describeIssue).join('; ')}.`
  if (entry.tool.output === 'strict') throw new ToolError('OUTPUT_INVALID', message, { details: { issues } })
  run.warn({ code: 'OUTPUT_INVALID', message, issues })
}
