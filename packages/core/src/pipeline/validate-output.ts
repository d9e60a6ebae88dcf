import { ToolError } from '@gantry/contract'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'
import { describeIssue } from './validate-input.ts'

/** Checks the output against its schema. The result is kept either way: a warning, or for strict tools a failure. */
export function validateOutput(run: Run, tool: PreparedTool): void {
  const { output: validator, entry } = tool
  if (validator === undefined || validator.check(run.output)) return
  const issues = validator.issues(run.output)
  const message = `The output does not fit ${entry.key}: ${issues.slice(0, 3).map(describeIssue).join('; ')}.`
  if (entry.tool.output === 'strict') throw new ToolError('OUTPUT_INVALID', message, { details: { issues } })
  run.warn({ code: 'OUTPUT_INVALID', message, issues })
}
