import type { Json, JsonObject } from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import { type Codec, defaultMessageLimits, type MessageLimits } from './codec.ts'
import {
  hasMember,
  invalidMessage,
  isObject,
  isText,
  type MemberRules,
  object,
  required,
  text,
  withoutBlanks,
  wrongMembers,
} from './members.ts'
import { readJson } from './read-message.ts'
import { deadEvent, endEvent, messageEvent, progressEvent, resultEvent, startEvent } from './somastack-events.ts'

export interface SomastackOptions {
  /** `somastack.tool_results` */
  readonly resultsTo?: string
  /** `conversation.outbound` */
  readonly messagesTo?: string
  /** Whether those who watch the conversation hear of starts, progress and ends there; they do when absent. */
  readonly events?: boolean
  /** `somastack.tools.dlq` */
  readonly deadLettersTo?: string
  /** The tenant that the topic belongs to; what messages say of theirs is not believed, and not repeated. */
  readonly tenant?: string
  /** The name that the gateway has for a tool, by its id; the id itself. What it calls is left as it calls it. */
  readonly toolName?: (id: string) => string
  readonly limits?: MessageLimits
}

const kind = 'somastack'
const members: MemberRules = {
  ...{ event_id: required(text), session_id: required(text), tool_name: required(text), persona_id: text },
  ...{ args: required(object), metadata: required(object), trace_context: object },
}
/** What is echoed of a request's metadata, at most; only its own id when it has more. */
const echoLimits = { bytes: 8_192, depth: 8, nodes: 200 }
const longestTrace = 512
/** Words that only we may say in a result. */
const ours: readonly string[] = ['tenant', 'tenant_id', 'requeue_override', 'writeback']

/**
 * The events of the SomaStack gateway: `tool_request` on a topic, `tool_result` on another. The id of the request is its
 * idempotency key, and stands in the answer as `metadata.request_id` (unless the gateway put its own there) and as the
 * header `correlation_id`; the id of the answer is the same however often it is sent. Tenant, roles and overrides in the
 * metadata or the headers are nothing but data.
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
      const told = isObject(trace_context) ? readTraceparent(trace_context.traceparent) : undefined
      const traceparent =
        told ?? (header === undefined ? undefined : readTraceparent(Buffer.from(header).toString('latin1')))
      const input = {
        ...{ kind: 'call' as const, tool: String(tool_name), args, idempotencyKey: `${session_id}/${event_id}` },
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

/** Whom to answer: anybody who can be found by a session or by the id of the request. */
function addressOf(value: JsonObject, to: string): { readonly address?: ReplyAddress } {
  const { event_id, session_id, persona_id, tool_name, metadata, trace_context } = value
  if (!isText(event_id) && !isText(session_id)) return {}
  const texts = Object.entries({ event_id, session_id, persona_id, tool_name }).filter(([, member]) => isText(member))
  const data = {
    ...(Object.fromEntries(texts) as JsonObject),
    metadata: echoOf(isObject(metadata) ? metadata : {}),
    ...(isObject(trace_context) ? { trace_context: tracesOf(trace_context) } : {}),
  }
  return { address: { codec: kind, transport: 'kafka', to, data } }
}

function echoOf(metadata: JsonObject): JsonObject {
  try {
    const copied = copyJson(metadata, { limits: echoLimits, dropped: { count: 0 } }) as JsonObject
    return Object.fromEntries(Object.entries(copied).filter(([name]) => !ours.includes(name)))
  } catch {
    return isText(metadata.request_id) ? { request_id: metadata.request_id } : {}
  }
}

function tracesOf(context: JsonObject): JsonObject {
  const fits = (value: Json | undefined) => typeof value === 'string' && value.length <= longestTrace
  const names = ['traceparent', 'tracestate'].filter((name) => fits(context[name]))
  return Object.fromEntries(names.map((name) => [name, context[name] ?? '']))
}
