import type { ErrorInfo, Json, Warning } from '@gantry/contract'
import { errorText, exitCodeOf } from './errors.ts'
import type { Io } from './io.ts'
import { safeJson, safeLine, safeValue } from './terminal.ts'

/** What `run` and `chain` end with. */
interface Outcome {
  readonly output: Json
  readonly error?: ErrorInfo
  readonly warnings?: readonly Warning[]
}

/** Prints an outcome, as JSON or for a person, and answers with its exit code. */
export async function printOutcome(outcome: Outcome, json: boolean | undefined, io: Io): Promise<number> {
  for (const { code, message, issues = [] } of outcome.warnings ?? []) {
    const where = issues.map((issue) => `\n  ${safeLine(`${issue.path} ${issue.message}`)}`).join('')
    io.err(`warning: ${safeLine(`${code}: ${message}`)}${where}\n`)
  }
  if (outcome.error !== undefined) io.err(errorText(outcome.error))
  if (json === true) await printJson(outcome, io)
  else if (outcome.output !== null) await io.out(`${safeValue(outcome.output)}\n`)
  return exitCodeOf(outcome)
}

/** One JSON document on one line. */
export function printJson(value: unknown, io: Io): Promise<void> {
  return io.out(`${safeJson(value)}\n`)
}
