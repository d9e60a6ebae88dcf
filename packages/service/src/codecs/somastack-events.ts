import type { JsonObject } from '@gantry/contract'
import type { ReplyAddress } from '../stores/call-store.ts'
import type { Message, Outgoing } from '../transports/message.ts'
import type { DeadMessage, Reply, SentMessage } from './codec.ts'
import type { MessageLimits } from './limits.ts'
import { isObject } from './members.ts'
import { readJson } from './read-message.ts'
import { callIdOf, type End, effectsOf, endOf, errorOnWire, filesOf, jsonBytes, stableId } from './wire.ts'

/** What the events say of ourselves. */
export interface EventOptions {
  readonly tenant?: string
  readonly toolName?: (id: string) => string
}

/** What fits into a dead letter beside the rest of it, as base64 too. */
const letterBytes = 524_288

/** The `tool_result` for a request. */
export function resultEvent({ to, data }: ReplyAddress, reply: Reply, now: Date, options: EventOptions): Outgoing {
  const { event_id = '', session_id = '', persona_id = null, tool_name = '', metadata, trace_context } = data
  const end = endOf(reply)
  const of = reply.kind === 'ended' ? callIdOf(reply.result) : `refused ${reply.error.code}`
  const event = {
    event_id: stableId('result', of, String(session_id), String(event_id)),
    ...{ session_id, persona_id, tool_name },
    status: statusOf(end),
    payload: payloadOf(end),
    metadata: {
      request_id: event_id,
      ...(isObject(metadata) ? metadata : {}),
      ...(options.tenant === undefined ? {} : { tenant: options.tenant }),
      ...writeBackOf(reply, options),
    },
    execution_time: reply.kind === 'ended' ? reply.result.durationMs / 1_000 : 0,
    ...(trace_context === undefined ? {} : { trace_context }),
  }
  const headers = headersOf(data, { type: 'tool_result', id: event.event_id, schema: 'tool_result' }, now, options)
  return { to, bytes: jsonBytes(event), headers, ...keyOf(data) }
}

/** What a tool said while it ran, for those who watch the conversation. */
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
    ...{ session_id, persona_id, role: 'tool' },
    message: typeof message === 'string' ? message : JSON.stringify(message),
    metadata: { request_id: event_id, source: 'tool_executor', status: 'running', tool_name, call_id: callId, number },
    ...{ version: 'sa01-v1', type: 'tool.message' },
  }
  const headers = headersOf(data, { type: event.type, id: event.event_id, schema: event.version }, now, options)
  return { to, bytes: jsonBytes(event), headers, ...keyOf(data) }
}

/** A message that could not be handled: the event itself when it can be read, else how it begins, in base64. */
export function deadEvent(
  to: string,
  { bytes, source }: Message,
  { error, deliveries }: DeadMessage,
  now: Date,
  limits: MessageLimits,
): Outgoing {
  const start = bytes.subarray(0, letterBytes)
  const read = readJson(start, limits)
  const letter = {
    original_event: read.error === undefined ? read.value : Buffer.from(start).toString('base64'),
    ...{ source_topic: source, error: errorOnWire(error), error_message: error.message, error_type: error.code },
    ...{ retry_count: Math.max(0, deliveries - 1), timestamp: now.getTime() / 1_000 },
  }
  return { to, bytes: jsonBytes(letter) }
}

function statusOf(end: End): string {
  if (end.status === 'ok') return 'success'
  if (end.error.code === 'CIRCUIT_OPEN') return 'circuit_open'
  if (end.status === 'denied') return 'blocked'
  return end.status === 'timeout' ? 'timeout' : 'error'
}

/** The gateway takes objects only. */
function payloadOf(end: End): object {
  if (end.status === 'ok') return isObject(end.output) ? end.output : { result: end.output }
  const { code, message, retryable, effect } = errorOnWire(end.error)
  return { error: { code, message, retryable, effect } }
}

/** Files go by their artifact: results share a topic, and the gateway fetches large things from the object store. */
function writeBackOf(reply: Reply, { toolName = (id) => id }: EventOptions) {
  const sent_files = filesOf(reply).map(({ name, mimeType, artifact, bytes, digest }) => {
    return { filename: name, mime_type: mimeType, artifact, bytes, digest }
  })
  const injected_tools = effectsOf(reply, 'tool').map(({ tool }) => toolName(tool))
  const sent_rich_messages = effectsOf(reply, 'message').map(({ message }) => message)
  const some = sent_files.length + injected_tools.length + sent_rich_messages.length > 0
  return some ? { writeback: { sent_files, injected_tools, sent_rich_messages } } : {}
}

/** The headers that every event of the gateway has. */
function headersOf(
  { event_id = '', session_id = '', persona_id }: JsonObject,
  event: { readonly type: string; readonly id: string; readonly schema: string },
  now: Date,
  { tenant = '' }: EventOptions,
): { readonly [name: string]: string } {
  return {
    ...{ tenant_id: tenant, session_id: String(session_id), persona_id: String(persona_id ?? '') },
    ...{ event_type: event.type, event_id: event.id, schema: event.schema },
    ...{ correlation_id: String(event_id), timestamp_ms: String(now.getTime()) },
  }
}

/** Events of one session keep their order. */
function keyOf({ session_id }: JsonObject): Pick<Outgoing, 'key'> {
  return typeof session_id === 'string' ? { key: session_id } : {}
}
