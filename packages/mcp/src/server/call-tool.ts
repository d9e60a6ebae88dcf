import type { Identity, JsonObject, Report, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import { type McpHost, refusalOf } from './host.ts'
import type { Prepared, Surface } from './surface.ts'
import type { Revision } from './tool-list.ts'
import type { CalledTool, ResultReader, ResultWriter } from './tool-result.ts'

/** The notifications that the caller of a tool receives while it runs. */
export interface CallNotifications {
  /** Present when the caller requested progress. */
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
 * Calls a tool and returns its result, also a failure, in the format of MCP. Rejects with TOOL_NOT_FOUND or
 * TOOL_ID_INVALID for an unknown or hidden name, which MCP reports as a protocol error.
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
 * The result of a call, or of its refusal. An unknown name in the call itself is a protocol error, which many models
 * never see. An unknown tool in the arguments of a tool that runs or describes others is a failure of that tool.
 */
export async function answering<T = CalledTool>(
  {
    surface,
    write,
    reader,
  }: { readonly surface: Surface; readonly write: ResultWriter; readonly reader: ResultReader },
  { name, args }: Pick<ToolCall, 'name' | 'args'>,
  work: (prepared: Prepared) => Promise<T>,
): Promise<T | CalledTool> {
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

/** The arguments of a call from a parsed message; empty when they are not an object. */
export function argumentsOf(value: unknown): JsonObject {
  return isObject(value) ? (value as JsonObject) : {}
}

/** The trace context of a request, if it is valid. */
export function traceOf(meta: unknown): { readonly traceparent?: string } {
  const traceparent = readTraceparent(isObject(meta) ? meta.traceparent : undefined)
  return traceparent === undefined ? {} : { traceparent }
}

function isNoName({ code }: ToolError): boolean {
  return code === 'TOOL_NOT_FOUND' || code === 'TOOL_ID_INVALID'
}

const levels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** Forwards reports. Progress that does not increase is dropped, because MCP does not allow it. */
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
