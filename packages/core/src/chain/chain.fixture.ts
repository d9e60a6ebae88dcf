import { codes, type Json, type JsonObject, type Result, type ResultStatus, ToolError } from '@gantry/contract'
import type { RunStep } from './context.ts'

type Options = Parameters<RunStep>[2]
type Body = (args: JsonObject, options: Options) => Json | Promise<Json>

/** A Result like those of the pipeline. */
export function resultOf(status: ResultStatus, output: Json, error?: Result['error']): Result {
  return {
    callId: 'call',
    status,
    output,
    content: [],
    ...(error && { error }),
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 0,
  }
}

/** A fake pipeline: runs plain functions, records each call, and turns thrown errors into a Result. */
export function fakeRun(tools: { readonly [id: string]: Body }) {
  const calls: { tool: string; args: JsonObject; options: Options }[] = []
  const run: RunStep = async (tool, args, options) => {
    calls.push({ tool, args, options })
    try {
      return resultOf('ok', await (tools[tool] ?? echo)(args, options))
    } catch (error) {
      if (!ToolError.is(error)) throw error
      const { code, message, stage, retryable, effect } = error
      return resultOf(codes[code].status, null, { code, message, stage, retryable, effect })
    }
  }
  return { run, calls, tools: () => calls.map((call) => call.tool) }
}

/** Returns its arguments. */
export const echo: Body = (args) => args

export const fail: Body = () => {
  throw new ToolError('BACKEND_FAILED', 'The tool said no.')
}

/** Ends only when it is cancelled. */
export const untilCancelled: Body = (_args, { signal }) =>
  new Promise((_resolve, reject) => {
    const cancel = (): void => reject(new ToolError('CANCELLED', 'The call was cancelled.'))
    if (signal.aborted) cancel()
    else signal.addEventListener('abort', cancel, { once: true })
  })

/** Aborts, then runs the function. */
export const after =
  (stop: AbortController, body: Body): Body =>
  (args, options) => {
    stop.abort()
    return body(args, options)
  }
