import type { Identity, JsonObject, Report, ToolError } from '@gantry/contract'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import { type McpHost, refusalOf } from './host.ts'
import type { Prepared, Surface } from './surface.ts'
import type { Revision } from './tool-list.ts'
import type { CalledTool, ResultReader, ResultWriter } from './tool-result.ts'

/** What the caller of a tool receives while it runs. */
export interface CallNotifications {
  /** Present when the caller asked for progress. */
  readonly progress?: (progress: number, total: number | undefined, message: string | undefined) => Promise<void>
  readonly log?: (level: 'debug' | 'info' | 'warning' | 'error', data: unknown) => Promise<void>
}

export interface ToolCall {
  readonly name: string
  readonly args: JsonObject
  readonly identity: Identity
  readonly revision: Revision
  readonly signal: AbortSignal
  readonly notifications?: CallNotifications | undefined
  readonly traceparent?: string
}

/**
 * Calls a tool and gives its result, an error too, as MCP has it. Rejects with TOOL_NOT_FOUND or TOOL_ID_INVALID for a
 * name that the caller may not see, which MCP reports in another way than the failure of a tool.
 */
export async function callTool(
  { surface, host, write }: { readonly surface: Surface; readonly host: McpHost; readonly write: ResultWriter },
  { name, args, identity, revision, signal, notifications, ...trace }: ToolCall,
): Promise<CalledTool> {
  const reader = { revision, identity, signal }
  return answering({ surface, write, reader }, { name, args }, async (prepared) => {
    if (prepared.kind === 'answer') return prepared.answer(signal)
    const onReport = notifications === undefined ? undefined : reportSender(notifications)
    return write(await host.run({ ...prepared.input, ...trace }, { identity, signal, onReport }), reader)
  })
}

/**
 * The result of a call, which is that of the work or the refusal of it. What the name stands for decides how a refusal
 * is reported: a tool that does not exist is an error of the protocol, which many a model never sees, and only of the
 * name itself. One that a tool was asked to run or describe in vain is a failure of that tool.
 */
export async function answering(
  {
    surface,
    write,
    reader,
  }: { readonly surface: Surface; readonly write: ResultWriter; readonly reader: ResultReader },
  { name, args }: Pick<ToolCall, 'name' | 'args'>,
  work: (prepared: Prepared) => Promise<CalledTool>,
): Promise<CalledTool> {
  let prepared: Prepared | undefined
  try {
    prepared = surface.prepare(name, args, reader.identity)
    return await work(prepared)
  } catch (thrown) {
    const error = refusalOf(thrown)
    if (prepared === undefined && isNoName(error)) throw error
    return write(error, reader)
  }
}

/** The trace that a request says it belongs to, if it says so in a way that can be read. */
export function traceOf(meta: unknown): { readonly traceparent?: string } {
  const traceparent = readTraceparent((meta as { readonly traceparent?: unknown } | undefined)?.traceparent)
  return traceparent === undefined ? {} : { traceparent }
}

function isNoName({ code }: ToolError): boolean {
  return code === 'TOOL_NOT_FOUND' || code === 'TOOL_ID_INVALID'
}

const levels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** Passes reports on; progress that does not increase is left out, because MCP knows none. */
function reportSender({ progress, log }: CallNotifications): (report: Report) => Promise<void> {
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
