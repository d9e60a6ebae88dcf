import { type Json, type SandboxOutput, ToolError, type Warning } from '@gantry/contract'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import { parseAnswer } from '@gantry/core/internal/json/parse'
import type { Outcome } from '@gantry/core/internal/runtimes/runtime'
import type { SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { outputFiles, outputText } from './files.ts'
import type { SandboxedPlan } from './request.ts'

/** The result of a call for the end of its program. */
export interface Answer {
  readonly output: Json | SandboxOutput
  /** The call failed; the output is what the program wrote until then. */
  readonly failure?: ToolError
}

/** A limit that ended the program fails the call of every tool; an exit code only that of tools bound to a program. */
export async function answerOf(
  plan: SandboxedPlan,
  request: SandboxRequest,
  outcome: Outcome,
  context: BackendContext,
): Promise<Answer> {
  const limited = limitFailure(outcome)
  if (plan.takes !== undefined) {
    const output = await whole(outcome, changedFiles(request, outcome), context)
    return limited === undefined ? { output } : { output, failure: limited }
  }
  const failure = limited ?? exitFailure(outcome)
  if (failure !== undefined) return { output: null, failure }
  return { output: ownOutput(plan, outcome) }
}

/** The error for a limit that ended a program. */
export function limitFailure({ hit }: Outcome): ToolError | undefined {
  if (hit === undefined) return undefined
  if (hit === 'wallMs') return new ToolError('TIMEOUT', 'The program did not end within limits.wallMs.')
  return new ToolError('LIMIT_EXCEEDED', `The program was ended by limits.${hit}.`, { details: { limit: hit } })
}

/** Warnings about values on descriptor 3 that are not in the output. */
function lossWarnings({ lost }: Outcome): readonly Warning[] {
  if (lost === undefined) return []
  const { keys, lines } = lost
  const messages = [
    ...(keys === 0 ? [] : [`${keys} __proto__ keys were left out of the output.`]),
    ...(lines === 0 ? [] : [`${lines} lines on descriptor 3 were left out: they are no JSON, too long or too many.`]),
  ]
  return messages.map((message) => ({ code: 'OUTPUT_INVALID', message }))
}

/** Records usage and failure of a program on its call. */
export function measure(
  {
    outcome,
    runtime,
    failure,
    refusals = [],
  }: {
    readonly outcome: Outcome
    readonly runtime: RanIn
    readonly failure?: ToolError | undefined
    /** Requests that egress refused. */
    readonly refusals?: readonly Warning[]
  },
  context: Pick<BackendContext, 'measured'>,
): void {
  const { usage, enforced, hit } = outcome
  context.measured({
    runtime,
    usage: { ...usage, enforced, ...(hit === undefined ? {} : { hit }) },
    ...(failure === undefined ? {} : { failure }),
    warnings: [...lossWarnings(outcome), ...refusals],
    plain: true,
  })
}

type RanIn = NonNullable<Parameters<BackendContext['measured']>[0]['runtime']>

/** The full output of the built-in tools. */
export async function whole(
  outcome: Outcome,
  changed: readonly (readonly [string, Uint8Array])[],
  context: Pick<BackendContext, 'keepsFiles' | 'attach'>,
): Promise<SandboxOutput> {
  const { exit, stdout, stderr, value } = outcome
  const cut = [
    ...(stdout.truncated ? ['stdout' as const] : []),
    ...(stderr.truncated ? ['stderr' as const] : []),
    ...(outcome.skipped.length > 0 ? ['files' as const] : []),
  ]
  return {
    ...('code' in exit ? { exitCode: exit.code } : { signal: exit.signal }),
    stdout: outputText(stdout),
    stderr: outputText(stderr),
    ...(cut.length > 0 ? { truncated: cut } : {}),
    ...(value === undefined ? {} : { value }),
    ...(changed.length === 0 ? {} : { files: await outputFiles(changed, context) }),
  }
}

/** Collected files without unchanged input files. */
function changedFiles(request: SandboxRequest, { files }: Outcome): readonly (readonly [string, Uint8Array])[] {
  return [...files].filter(([path, bytes]) => !isSame(request.files?.get(path), bytes))
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

/** The value on descriptor 3, else stdout: parsed where it is JSON, else as text. */
function ownOutput({ output = 'auto' }: SandboxedPlan, { value, stdout }: Outcome): Json {
  if (value !== undefined && output === 'auto') return value
  if (stdout.truncated) throw new ToolError('RESULT_TOO_LARGE', 'The output of the program exceeds limits.stdoutBytes.')
  const text = outputText(stdout)
  if (output === 'text') return text
  try {
    return parseAnswer(text)
  } catch (cause) {
    if (output === 'auto') return text
    throw new ToolError('OUTPUT_INVALID', 'The program did not write JSON to its stdout.', { cause })
  }
}
