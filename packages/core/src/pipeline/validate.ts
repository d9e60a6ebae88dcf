import { type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { type StandardSchema, type Validated, validateStandard } from '@gantry/json-schema'
import { type CopyOptions, copyJson, JsonError } from '../json/plain.ts'
import type { PreparedTool } from './lookup.ts'
import type { Run } from './run.ts'

const longestMessage = 300

/** Validates the arguments and returns a plain copy for the tool. */
export function validateInput(run: Run, tool: PreparedTool): JsonObject | Promise<JsonObject> {
  run.check()
  const args = plainArgs(run.request.args, tool.argsCopy)
  const { input } = tool
  if ('~standard' in input) return validateByVendor(run, tool, input, args)
  if (!input.check(args)) throw invalid(tool, input.issues(args))
  return args
}

async function validateByVendor(
  run: Run,
  tool: PreparedTool,
  schema: StandardSchema,
  args: JsonObject,
): Promise<JsonObject> {
  const outcome = await askVendor(run, schema, args)
  if ('issues' in outcome) throw invalid(tool, outcome.issues)
  return outcome.value as JsonObject
}

/** A validator that throws refuses the arguments. */
async function askVendor(run: Run, schema: StandardSchema, args: JsonObject): Promise<Validated<unknown>> {
  try {
    const answer = validateStandard(schema, args)
    return answer instanceof Promise ? await run.within(answer) : answer
  } catch (error) {
    if (run.stopped !== undefined) throw run.stopped
    const issue: Issue = { path: '', message: 'could not be validated: the code of the schema threw an error' }
    throw new ToolError('INPUT_INVALID', `${describeIssue(issue)}.`, { cause: error, details: { issues: [issue] } })
  }
}

/** A plain copy of the arguments within the limits. Throws INPUT_INVALID for any others. */
export function plainArgs(value: unknown, options: CopyOptions): JsonObject {
  if (value === undefined) return {}
  try {
    const copied = copyJson(value, options)
    if (isObject(copied)) return copied
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issue: Issue = { path: error.path, message: error.message }
    throw new ToolError('INPUT_INVALID', `Invalid arguments: ${describeIssue(issue)}.`, {
      cause: error.cause,
      details: { issues: [issue] },
    })
  }
  const issue: Issue = { path: '', keyword: 'type', message: 'must be an object' }
  throw new ToolError('INPUT_INVALID', 'The arguments must be an object.', { details: { issues: [issue] } })
}

function invalid(tool: PreparedTool, issues: readonly Issue[]): ToolError {
  const first = issues.slice(0, 3).map(describeIssue).join('; ')
  const more = issues.length > 3 ? `; and ${issues.length - 3} more` : ''
  return new ToolError('INPUT_INVALID', `The arguments do not fit ${tool.entry.key}: ${first}${more}.`, {
    details: { issues },
  })
}

/** An issue as text. */
function describeIssue(issue: Issue): string {
  const message = issue.message.replace(/\.$/, '').slice(0, longestMessage)
  return `${issue.path === '' ? 'the value' : issue.path} ${message}`
}

/** Validates the output. Invalid output is kept, with a warning or, for strict tools, a failure. */
export function validateOutput(run: Run, tool: PreparedTool): void | Promise<void> {
  const { output: validator } = tool
  if (validator === undefined) return
  if (!('~standard' in validator)) {
    if (!validator.check(run.output)) judge(run, tool, validator.issues(run.output))
    return
  }
  const answer = validateStandard(validator, run.output)
  if (answer instanceof Promise) return run.within(answer).then((late) => judge(run, tool, issuesOf(late)))
  judge(run, tool, issuesOf(answer))
}

/** A Standard Schema may transform the value; the output stays the one of the tool. */
function issuesOf(outcome: Validated<unknown>): readonly Issue[] {
  return 'issues' in outcome ? outcome.issues : []
}

function judge(run: Run, { entry }: PreparedTool, issues: readonly Issue[]): void {
  if (issues.length === 0) return
  const message = `The output does not fit ${entry.key}: ${issues.slice(0, 3).map(describeIssue).join('; ')}.`
  if (entry.tool.output === 'strict') throw new ToolError('OUTPUT_INVALID', message, { details: { issues } })
  run.warn({ code: 'OUTPUT_INVALID', message, issues })
}
