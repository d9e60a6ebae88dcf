import { type Json, type SandboxFile, type SandboxOutput, ToolError } from '@gantry/contract'
import { parseAnswer } from '../../json/parse-answer.ts'
import type { SandboxRequest } from '../../runtimes/request.ts'
import type { Outcome } from '../../runtimes/runtime.ts'
import { outputFile, outputText } from '../../runtimes/text.ts'
import type { SandboxedPlan } from './binding.ts'

/** What a program's end means for its call. */
export interface Answer {
  readonly output: Json
  /** The call failed; the output is what there was until then. */
  readonly failure?: ToolError
}

/** A limit that ended the program is a failure for every tool; an exit code only for those that are programs themselves. */
export function answerOf(plan: SandboxedPlan, request: SandboxRequest, outcome: Outcome): Answer {
  const limited = limitFailure(outcome)
  if (plan.takes !== undefined) return withFailure(whole(request, outcome), limited)
  const failure = limited ?? exitFailure(outcome)
  if (failure !== undefined) return { output: null, failure }
  return { output: ownOutput(plan, outcome) }
}

function withFailure(output: Json, failure: ToolError | undefined): Answer {
  return failure === undefined ? { output } : { output, failure }
}

function limitFailure({ hit }: Outcome): ToolError | undefined {
  if (hit === undefined) return undefined
  if (hit === 'wallMs') return new ToolError('TIMEOUT', 'The program did not end within limits.wallMs.')
  return new ToolError('LIMIT_EXCEEDED', `The program was ended by limits.${hit}.`, { details: { limit: hit } })
}

/** Everything the built-in tools promise. */
function whole(request: SandboxRequest, outcome: Outcome): Json {
  const { exit, stdout, stderr, value } = outcome
  const files = changedFiles(request, outcome)
  const cut = [
    ...(stdout.truncated ? ['stdout' as const] : []),
    ...(stderr.truncated ? ['stderr' as const] : []),
    ...(outcome.skipped.length > 0 ? ['files' as const] : []),
  ]
  const output: SandboxOutput = {
    ...('code' in exit ? { exitCode: exit.code } : { signal: exit.signal }),
    stdout: outputText(stdout),
    stderr: outputText(stderr),
    ...(cut.length > 0 ? { truncated: cut } : {}),
    ...(value === undefined ? {} : { value }),
    ...(files === undefined ? {} : { files }),
  }
  return output as unknown as Json
}

/** Files that are as they were handed in say nothing new. */
function changedFiles(request: SandboxRequest, { files }: Outcome): { [path: string]: SandboxFile } | undefined {
  const changed = [...files].filter(([path, bytes]) => !isSame(request.files?.get(path), bytes))
  if (changed.length === 0) return undefined
  const listed: { [path: string]: SandboxFile } = Object.create(null)
  for (const [path, bytes] of changed) listed[path] = outputFile(bytes)
  return listed
}

function isSame(before: Uint8Array | undefined, after: Uint8Array): boolean {
  return before !== undefined && Buffer.compare(before, after) === 0
}

const longestWords = 2_000

function exitFailure({ exit, stderr }: Outcome): ToolError | undefined {
  if ('code' in exit && exit.code === 0) return undefined
  const how = 'code' in exit ? `ended with exit code ${exit.code}` : `was ended by ${exit.signal}`
  const said = outputText(stderr).trim().slice(-longestWords)
  return new ToolError('BACKEND_FAILED', `The program ${how}${said === '' ? '.' : `: ${said}`}`, {
    details: { ...exit },
  })
}

/** The value on descriptor 3, else stdout: as JSON where it is, or as the text it is. */
function ownOutput({ output = 'auto' }: SandboxedPlan, { value, stdout }: Outcome): Json {
  if (value !== undefined && output === 'auto') return value
  if (stdout.truncated) throw new ToolError('RESULT_TOO_LARGE', 'The output of the program is over limits.stdoutBytes.')
  const text = outputText(stdout)
  if (output === 'text') return text
  try {
    return parseAnswer(text)
  } catch (cause) {
    if (output === 'auto') return text
    throw new ToolError('OUTPUT_INVALID', 'The program did not write JSON to its stdout.', { cause })
  }
}
