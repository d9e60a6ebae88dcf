import type { Identity, JsonObject, Report, ToolError } from '@gantry/contract'
import { readTraceparent } from '@gantry/core'
import { type McpHost, refusalOf } from './host.ts'
import type { Surface } from './surface.ts'
import type { Revision } from './tool-list.ts'
import type { CalledTool, ResultWriter } from './tool-result.ts'

/** What a caller of a tool hears while it runs. */
export interface Hearing {
  /** There when he asked for it. */
  readonly progress?: (progress: number, total: number | undefined, message: string | undefined) => Promise<void>
  readonly log?: (level: 'debug' | 'info' | 'warning' | 'error', data: unknown) => Promise<void>
}

export interface ToolCall {
  readonly name: string
  readonly args: JsonObject
  readonly identity: Identity
  readonly revision: Revision
  readonly signal: AbortSignal
  readonly hearing?: Hearing | undefined
  readonly traceparent?: string
}

/**
 * Calls a tool and gives its result, an error too, as MCP has it. Rejects with TOOL_NOT_FOUND for a name that is not
 * there for the caller, which MCP tells in another way than the failure of a tool.
 */
export async function callTool(
  { surface, host, write }: { readonly surface: Surface; readonly host: McpHost; readonly write: ResultWriter },
  { name, args, identity, revision, signal, hearing, ...trace }: ToolCall,
): Promise<CalledTool> {
  try {
    const prepared = surface.prepare(name, args, identity)
    if (prepared.kind === 'answer') return await prepared.answer(signal)
    const hear = hearing === undefined ? undefined : hearer(hearing)
    return write(await host.run({ ...prepared.input, ...trace }, { identity, signal, hear }), revision)
  } catch (thrown) {
    return write(askedWrongly(refusalOf(thrown)), revision)
  }
}

/** The trace that a request says it belongs to, if it says so in a way that can be read. */
export function traceOf(meta: unknown): { readonly traceparent?: string } {
  const traceparent = readTraceparent((meta as { readonly traceparent?: unknown } | undefined)?.traceparent)
  return traceparent === undefined ? {} : { traceparent }
}

/** Throws what is no failure of a tool. */
export function askedWrongly(error: ToolError): ToolError {
  if (error.code === 'TOOL_NOT_FOUND' || error.code === 'TOOL_ID_INVALID') throw error
  return error
}

const levels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** Passes reports on; progress that does not increase is left out, because MCP knows none. */
function hearer({ progress, log }: Hearing): (report: Report) => Promise<void> {
  let last = Number.NEGATIVE_INFINITY
  return async (report) => {
    if (report.kind === 'progress') {
      if (report.progress <= last) return
      last = report.progress
      await progress?.(report.progress, report.total, report.message)
    } else if (report.kind === 'log') {
      const { level, message, data } = report
      await log?.(levels[level], data === undefined ? message : { message, data })
    } else await log?.('info', report.data)
  }
}
