import type { Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '@gantry/core/internal/json/plain'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import { type Codec, defaultMessageLimits, type MessageLimits, readJson } from './codec.ts'
import {
  hasMember,
  invalidMessage,
  isShortText,
  type MemberRules,
  object,
  required,
  text,
  textMembers,
  withoutBlanks,
  wrongMembers,
} from './members.ts'
import { deadEvent, endEvent, messageEvent, progressEvent, resultEvent, startEvent } from './somastack-events.ts'

export interface SomastackOptions {
  /** `somastack.tool_results` */
  readonly resultsTo?: string
  /** `conversation.outbound` */
  readonly messagesTo?: string
  /** Whether starts, progress and ends are sent to subscribers of the conversation; true when absent. */
  readonly events?: boolean
  /** `somastack.tools.dlq` */
  readonly deadLettersTo?: string
  /** The tenant of the topic; a tenant in a message is neither trusted nor repeated. */
  readonly tenant?: string
  /** The gateway's name of a tool, by its id; the id itself when absent. Names in requests are not translated here. */
  readonly toolName?: (id: string) => string
  readonly limits?: MessageLimits
}

const kind = 'somastack'
const members: MemberRules = {
  event_id: required(text),
  session_id: required(text),
  tool_name: required(text),
  persona_id: text,
  args: required(object),
  metadata: required(object),
  trace_context: object,
}
/** The limits of echoed metadata; beyond them only the request's own id is echoed. */
const echoLimits = { bytes: 8_192, depth: 8, nodes: 200 }
const longestTrace = 512
/** Members that only the service may set in a result. */
const reservedMembers: readonly string[] = ['tenant', 'tenant_id', 'requeue_override', 'writeback']

/**
 * The events of the SomaStack gateway: `tool_request` on a topic, `tool_result` on another. The id of the request is
 * its idempotency key, and is in the reply as `metadata.request_id` (unless the gateway set its own) and as the header
 * `correlation_id`; the id of a reply is the same however often it is sent. Tenant, roles and overrides in the metadata
 * or the headers are data without any authority.
 */
export function somastackCodec(options: SomastackOptions = {}): Codec {
  const { limits = defaultMessageLimits, resultsTo = 'somastack.tool_results' } = options
  const { messagesTo = 'conversation.outbound', deadLettersTo = 'somastack.tools.dlq', events = true } = options
  return {
    kind,
    speaks: ({ bytes }) => hasMember(bytes, ['event_id', 'session_id', 'tool_name']),
    decode({ bytes, headers }) {
      const read = readJson(bytes, limits)
      const value = withoutBlanks(read.value)
      const address = addressOf(value, resultsTo)
      const error = read.error ?? wrongShape(value)
      if (error !== undefined) return { kind: 'invalid', error, ...address }
      const { event_id, session_id, tool_name, args, trace_context } = value
      const header = headers.get('traceparent')?.subarray(0, longestTrace)
      const given = isObject(trace_context) ? readTraceparent(trace_context.traceparent) : undefined
      const traceparent =
        given ?? (header === undefined ? undefined : readTraceparent(Buffer.from(header).toString('latin1')))
      const input = {
        kind: 'call' as const,
        tool: String(tool_name),
        args,
        idempotencyKey: `${session_id}/${event_id}`,
        ...(traceparent === undefined ? {} : { traceparent }),
      }
      return { kind: 'call', input, ...address }
    },
    reply: (address, reply, now) => resultEvent(address, reply, now, options),
    send: ({ data }, sent, now) => messageEvent(messagesTo, data, sent, now, options),
    started: ({ data }, call, now) => (events ? startEvent(messagesTo, data, call, now, options) : undefined),
    progress: ({ data }, progress, now) =>
      events ? progressEvent(messagesTo, data, progress, now, options) : undefined,
    ended: ({ data }, reply, now) => (events ? endEvent(messagesTo, data, reply, now, options) : undefined),
    deadLetter: (message, failure, now) => deadEvent(deadLettersTo, message, failure, now, limits),
  }
}

function wrongShape(value: JsonObject) {
  const issues = wrongMembers(value, members)
  return issues.length === 0 ? undefined : invalidMessage(issues)
}

/** The reply address: the session, or the id of the request. */
function addressOf(value: JsonObject, to: string): { readonly address?: ReplyAddress } {
  const { event_id, session_id, persona_id, tool_name, metadata, trace_context } = value
  if (!isShortText(event_id) && !isShortText(session_id)) return {}
  const data = {
    ...textMembers({ event_id, session_id, persona_id, tool_name }),
    metadata: echoOf(isObject(metadata) ? metadata : {}),
    ...(isObject(trace_context) ? { trace_context: tracesOf(trace_context) } : {}),
  }
  return { address: { codec: kind, transport: 'kafka', to, data } }
}

function echoOf(metadata: JsonObject): JsonObject {
  try {
    const copied = copyJson(metadata, { limits: echoLimits, dropped: { count: 0 } })
    return Object.fromEntries(
      Object.entries(isObject(copied) ? copied : {}).filter(([name]) => !reservedMembers.includes(name)),
    )
  } catch {
    return isShortText(metadata.request_id) ? { request_id: metadata.request_id } : {}
  }
}

function tracesOf(context: JsonObject): JsonObject {
  const fits = (value: Json | undefined) => typeof value === 'string' && value.length <= longestTrace
  const names = ['traceparent', 'tracestate'].filter((name) => fits(context[name]))
  return Object.fromEntries(names.map((name) => [name, context[name] ?? '']))
}
