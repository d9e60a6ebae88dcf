import type { Content, ErrorInfo, Json, Warning } from '@gantry/contract'
import { errorText, exitCodeOf } from './errors.ts'
import type { Io } from './io.ts'
import { safeJson, safeLine, safeValue } from './terminal.ts'

/** What `run` and `chain` end with. */
interface Outcome {
  readonly output: Json
  /** Absent from a chain. */
  readonly content?: readonly Content[]
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
  else {
    const output = outcome.output === null ? [] : [safeValue(outcome.output)]
    const lines = [...output, ...(outcome.content ?? []).flatMap(contentLine)]
    if (lines.length > 0) await io.out(`${lines.join('\n')}\n`)
  }
  return exitCodeOf(outcome)
}

/** One JSON document on one line. */
export function printJson(value: unknown, io: Io): Promise<void> {
  return io.out(`${safeJson(value)}\n`)
}

/** What stands for content that is no text, whose words are in the output already; it is foreign, so nothing is sure. */
function contentLine(block: Content): readonly string[] {
  if (block.type === 'text') return []
  const { uri, mimeType, data, blob } = (block.type === 'resource' ? block.resource : block) as {
    readonly [key: string]: unknown
  }
  const base64 = [data, blob].find((value) => typeof value === 'string')
  const facts = [uri, mimeType, base64 === undefined ? undefined : size(base64)]
  const known = facts.filter((fact) => typeof fact === 'string')
  return [safeLine(`[${known.length === 0 ? block.type : known.join(', ')}]`)]
}

function size(base64: string): string {
  const bytes = Buffer.byteLength(base64, 'base64')
  return bytes < 1_024 ? `${bytes} B` : `${Math.round(bytes / 1_024)} KB`
}
