import { type Issue, ToolError } from '@gantry/contract'

/** Enough for a person; a toolset of thousands of wrong patterns would otherwise be thousands of sentences. */
const maxIssues = 100

/** The error for a question that is wrong at the given paths. */
export function inputFault(question: string, issues: readonly Issue[]): ToolError {
  const [first] = issues
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const reason = first === undefined ? 'it is invalid' : `${first.path} ${first.message}`
  const details = { issues: issues.slice(0, maxIssues) }
  return new ToolError('INPUT_INVALID', `The ${question} is wrong: ${reason}${more}.`, { details })
}
