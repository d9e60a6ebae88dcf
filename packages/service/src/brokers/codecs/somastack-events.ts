import type { JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message, Outgoing } from '../transports/transport.ts'
import {
  type CallProgress,
  type DeadMessage,
  type MessageLimits,
  type Reply,
  type RunningCall,
  readJson,
  type SentMessage,
} from './codec.ts'
import { callIdOf, type End, effectsOf, endOf, errorOnWire, filesOf, jsonBytes, stableId } from './wire.ts'

/** The tenant and tool names that events carry. */
export interface EventOptions {
  readonly tenant?: string
  readonly toolName?: (id: string) => string
}

/** The most bytes of a message in a dead letter, also as base64. */
const deadLetterBytes = 524_288
const longestProgress = 2_000
/** Subscribers of the conversation see the beginning; the result has the complete text. */
const longestText = 65_536

/** The `tool_result` for a request. */
export function resultEvent({ to, data }: ReplyAddress, reply: Reply, now: Date, options: EventOptions): Outgoing {
  const { event_id = '', session_id = '', persona_id = null, tool_name = '', metadata, trace_context } = data
  const end = endOf(reply)
  const of = reply.kind === 'ended' ? callIdOf(reply.result) : `refused ${reply.error.code}`
  const event = {
    event_id: stableId('result', of, String(session_id), String(event_id)),
    session_id,
    persona_id,
    tool_name,
    status: statusOf(end),
    payload: payloadOf(end),
    metadata: {
      request_id: event_id,
      ...(isObject(metadata) ? metadata : {}),
      ...(options.tenant === undefined ? {} : { tenant: options.tenant }),
      ...writebackOf(reply, options),
    },
    execution_time: reply.kind === 'ended' ? reply.result.durationMs / 1_000 : 0,
    ...(trace_context === undefined ? {} : { trace_context }),
  }
  const headers = headersOf(data, { type: 'tool_result', id: event.event_id, schema: 'tool_result' }, now, options)
  return { to, bytes: jsonBytes(event), headers, ...keyOf(data) }
}

/** A message of a running tool, for subscribers of the conversation. */
export function messageEvent(
  to: string,
  data: JsonObject,
  { callId, number, message }: SentMessage,
  now: Date,
  options: EventOptions,
): Outgoing {
  const { event_id = '', session_id = '', persona_id = null, tool_name = '' } = data
  const event = {
    event_id: stableId('message', callId, String(number)),
    session_id,
    persona_id,
    role: 'tool',
    message: typeof message === 'string' ? message : JSON.stringify(message),
    metadata: { request_id: event_id, source: 'tool_executor', status: 'running', tool_name, call_id: callId, number },
    version: 'sa01-v1',
    type: 'tool.message',
  }
  const headers = headersOf(data, { type: event.type, id: event.event_id, schema: event.version }, now, options)
  return { to, bytes: jsonBytes(event), headers, ...keyOf(data) }
}

/** The start of a request, for subscribers of the conversation. */
export function startEvent(
  to: string,
  data: JsonObject,
  { callId }: RunningCall,
  now: Date,
  options: EventOptions,
): Outgoing {
  const about = { type: 'tool.start', id: stableId('start', callId), message: '' }
  return watchedEvent(to, data, about, { status: 'start', call_id: callId }, now, options)
}

export function progressEvent(
  to: string,
  data: JsonObject,
  { callId, fence, number, progress, total, message = '' }: CallProgress,
  now: Date,
  options: EventOptions,
): Outgoing {
  const id = stableId('progress', callId, String(fence), String(number))
  const report = { status: 'progress', call_id: callId, number, progress, ...(total === undefined ? {} : { total }) }
  const about = { type: 'tool.progress', id, message: message.slice(0, longestProgress) }
  return watchedEvent(to, data, about, report, now, options)
}

/** The end of a request, for subscribers of the conversation: the content of its `tool_result`, as a text. */
export function endEvent(to: string, data: JsonObject, reply: Reply, now: Date, options: EventOptions): Outgoing {
  const { session_id = '', event_id = '' } = data
  const end = endOf(reply)
  const of = reply.kind === 'ended' ? callIdOf(reply.result) : `refused ${reply.error.code}`
  const text = JSON.stringify(payloadOf(end))
  const message = text.length > longestText ? `${text.slice(0, longestText).toWellFormed()}…` : text
  const about = { type: 'tool.result', id: stableId('shown', of, String(session_id), String(event_id)), message }
  const execution_time = reply.kind === 'ended' ? reply.result.durationMs / 1_000 : 0
  return watchedEvent(to, data, about, { status: statusOf(end), execution_time }, now, options)
}

/** An event of the conversation, with the members that all of them have. */
function watchedEvent(
  to: string,
  data: JsonObject,
  { type, id, message }: { readonly type: string; readonly id: string; readonly message: string },
  report: JsonObject,
  now: Date,
  options: EventOptions,
): Outgoing {
  const { event_id = '', session_id = '', persona_id = null, tool_name = '', metadata } = data
  const event = {
    event_id: id,
    session_id,
    persona_id,
    role: 'tool',
    message,
    metadata: {
      request_id: event_id,
      ...(isObject(metadata) ? metadata : {}),
      ...(options.tenant === undefined ? {} : { tenant: options.tenant }),
      source: 'tool_executor',
      tool_name,
      ...report,
    },
    version: 'sa01-v1',
    type,
  }
  const headers = headersOf(data, { type, id, schema: event.version }, now, options)
  return { to, bytes: jsonBytes(event), headers, ...keyOf(data) }
}

/** A message that could not be handled: the event itself when it can be parsed, else its beginning, in base64. */
export function deadEvent(
  to: string,
  { bytes, source }: Message,
  { error, deliveries }: DeadMessage,
  now: Date,
  limits: MessageLimits,
): Outgoing {
  const start = bytes.subarray(0, deadLetterBytes)
  const read = readJson(start, limits)
  const deadLetter = {
    original_event: read.error === undefined ? read.value : Buffer.from(start).toString('base64'),
    source_topic: source,
    error: errorOnWire(error),
    error_message: error.message,
    error_type: error.code,
    retry_count: Math.max(0, deliveries - 1),
    timestamp: now.getTime() / 1_000,
  }
  return { to, bytes: jsonBytes(deadLetter) }
}

function statusOf(end: End): string {
  if (end.status === 'ok') return 'success'
  if (end.error.code === 'CIRCUIT_OPEN') return 'circuit_open'
  if (end.status === 'denied') return 'blocked'
  return end.status === 'timeout' ? 'timeout' : 'error'
}

/** The gateway accepts objects only. */
function payloadOf(end: End): object {
  if (end.status === 'ok') return isObject(end.output) ? end.output : { result: end.output }
  const { code, message, retryable, effect, details } = errorOnWire(end.error)
  const later = typeof details?.retryAfterMs === 'number' ? { retryAfterMs: details.retryAfterMs } : {}
  return { error: { code, message, retryable, effect, ...later } }
}

/**
 * Files are named by their artifact: results share a topic, and the gateway fetches large files from the object store.
 */
function writebackOf(reply: Reply, { toolName = (id) => id }: EventOptions) {
  const sent_files = filesOf(reply).map(({ name, mimeType, artifact, bytes, digest }) => {
    return { filename: name, mime_type: mimeType, artifact, bytes, digest }
  })
  const injected_tools = effectsOf(reply, 'tool').map(({ tool }) => toolName(tool))
  const sent_rich_messages = effectsOf(reply, 'message').map(({ message }) => message)
  const some = sent_files.length + injected_tools.length + sent_rich_messages.length > 0
  return some ? { writeback: { sent_files, injected_tools, sent_rich_messages } } : {}
}

/** The headers of every event of the gateway. */
function headersOf(
  { event_id = '', session_id = '', persona_id }: JsonObject,
  event: { readonly type: string; readonly id: string; readonly schema: string },
  now: Date,
  { tenant = '' }: EventOptions,
): { readonly [name: string]: string } {
  return {
    tenant_id: tenant,
    session_id: String(session_id),
    persona_id: String(persona_id ?? ''),
    event_type: event.type,
    event_id: event.id,
    schema: event.schema,
    correlation_id: String(event_id),
    timestamp_ms: String(now.getTime()),
  }
}

/** Events of one session keep their order. */
function keyOf({ session_id }: JsonObject): Pick<Outgoing, 'key'> {
  return typeof session_id === 'string' ? { key: session_id } : {}
}
