import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { parseAnswer } from '@gantry/core/internal/json/parse'
import { copyJson } from '@gantry/core/internal/json/plain'
import type { CallInput, ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message } from '../transports/transport.ts'
import {
  type Codec,
  defaultMessageLimits,
  foreignAddress,
  type MessageLimits,
  type Reply,
  type ReplyFile,
  readMsgpack,
} from './codec.ts'
import {
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
import { encodeMsgpack } from './msgpack.ts'
import { callIdOf, effectsOf, endOf, errorOnWire, filesOf, placeKey, raisedText } from './wire.ts'

export interface StargazerOptions {
  /** Whether replies may be sent to the stream that an envelope names; see `stargazerReplyRule`. */
  readonly mayReplyTo: (to: string) => boolean
  /** The stream for messages of running tools; without it they are not sent. */
  readonly messagesTo?: string
  /** Whether replies include the text of an exception; otherwise only the name of its class. */
  readonly errorText?: boolean
  /** `sg:stream:dlq` */
  readonly deadLettersTo?: string
  /** The gateway's name of a tool, by its id; the id itself when absent. Names in requests are not translated here. */
  readonly toolName?: (id: string) => string
  readonly limits?: MessageLimits
}

const kind = 'stargazer'
const members: MemberRules = {
  correlation_id: text,
  reply_to: text,
  idem_key: text,
  schema_hash: text,
  tool_name: required(text),
  tool_args: object,
  ctx: object,
}

/**
 * The envelopes of the Stargazer gateway, MessagePack on a Redis stream. The sender is identified by the session record
 * at `ctx.trace_id`, which the gateway wrote; users, channels and platforms in the envelope have no authority. The
 * context of the request goes to the tool as data. An envelope without a session is refused here, whatever identity the
 * host has configured.
 */
export function stargazerCodec(options: StargazerOptions): Codec {
  const { limits = defaultMessageLimits, deadLettersTo = 'sg:stream:dlq', messagesTo } = options
  return {
    kind,
    speaks: ({ bytes: [head = 0] }) => (head >= 0x80 && head < 0x90) || head === 0xde || head === 0xdf,
    decode(message) {
      const binary = { below: 'tool_args', found: [] }
      const read = readMsgpack(message.bytes, limits, binary)
      const value = withoutBlanks(read.value)
      const { reply_to } = value
      const foreign = isShortText(reply_to) && !options.mayReplyTo(reply_to)
      const error = read.error ?? (foreign ? foreignAddress('/reply_to') : wrongShape(value))
      const address = isShortText(reply_to) && !foreign ? { address: addressOf(value, reply_to) } : {}
      if (error !== undefined) return { kind: 'invalid', error, ...address }
      const { schema_hash = '' } = value
      const input = inputOf(value, message)
      const about = { session: traceIdOf(value), catalogHash: String(schema_hash), binary: binary.found }
      return { kind: 'call', input, ...about, ...address }
    },
    reply: ({ to, data }, reply) => ({ to, bytes: encodeMsgpack(replyOf(data, reply, options)) }),
    send({ data }, { number, message }) {
      if (messagesTo === undefined) return undefined
      const { correlation_id = null, trace_id = '' } = data
      const sent = { correlation_id, trace_id, type: 'rich_message', number, message }
      return { to: messagesTo, bytes: encodeMsgpack(sent) }
    },
    background: ({ to, data }, { callId }, since) => ({
      answer: { to, bytes: encodeMsgpack(interimOf(data, callId)) },
      task: {
        key: `${tasksBelow}${callId}`,
        fields: { ...taskFields(data, callId), status: 'running', created_at: secondsOf(since) },
        ttlMs: runningTaskMs,
      },
    }),
    endedTask({ data }, reply, now) {
      if (reply.kind !== 'ended') return undefined
      const callId = callIdOf(reply.result)
      const { result, error } = replyOf(data, { ...reply, files: [] }, options)
      const ending = result === undefined ? { status: 'failed', error: error ?? '' } : { status: 'completed', result }
      const short = Object.entries(ending).map(([name, text]) => [name, shortened(text)])
      const fields = { ...taskFields(data, callId), ...Object.fromEntries(short), finished_at: secondsOf(now) }
      return { key: `${tasksBelow}${callId}`, fields, ttlMs: endedTaskMs }
    },
    // The gateway expects one map in the field `data`, and not one field of the entry for each member.
    deadLetter({ bytes, source, position }, { error, deliveries }, now) {
      const data = bytes.slice(0, limits.bytes)
      const deadLetter = {
        original_stream: source,
        original_msg_id: position,
        error: error.message,
        attempt: deliveries,
        data,
      }
      const trace_id = traceIdOf(readMsgpack(bytes, limits).value)
      return { to: deadLettersTo, bytes: encodeMsgpack({ ...deadLetter, ts: now.getTime() / 1_000, trace_id }) }
    },
  }
}

/** The prefix of the keys of background task records. */
const tasksBelow = 'sg:task:'
const runningTaskMs = 86_400_000
const endedTaskMs = 3_600_000
/** The limit of a result in the record of its task; the reply and `check_task` have the complete result. */
const longestTaskText = 262_144

/** The interim answer in place of a result; it has the form of a reply, so that the gateway needs no change. */
function interimOf({ correlation_id = null }: JsonObject, callId: string) {
  const message = 'The tool is still running in the background. Call check_task with this task_id for its result.'
  return {
    correlation_id,
    result: JSON.stringify({ status: 'running', task_id: callId, message }),
    writeback: { sent_files: [], injected_tools: [], sent_rich_messages: [] },
    task_id: callId,
  }
}

function taskFields({ correlation_id, trace_id, tool_name }: JsonObject, callId: string) {
  return { task_id: callId, ...textMembers({ correlation_id, trace_id, tool_name }) }
}

function secondsOf(time: Date): string {
  return String(time.getTime() / 1_000)
}

function shortened(text: string): string {
  return text.length > longestTaskText ? `${text.slice(0, longestTaskText).toWellFormed()}…` : text
}

function wrongShape(value: JsonObject): ToolError | undefined {
  const issues = wrongMembers(value, members)
  if (issues.length > 0) return invalidMessage(issues)
  if (traceIdOf(value) !== '') return undefined
  return new ToolError('UNAUTHENTICATED', 'The message names no session: /ctx/trace_id is missing or not a text.')
}

/** The session id; empty when there is none. */
function traceIdOf({ ctx }: JsonObject): string {
  return isObject(ctx) && isShortText(ctx.trace_id) ? ctx.trace_id : ''
}

function addressOf(value: JsonObject, to: string): ReplyAddress {
  const { correlation_id, tool_name } = value
  const data = {
    correlation_id: isShortText(correlation_id) ? correlation_id : null,
    trace_id: traceIdOf(value),
    ...(isShortText(tool_name) ? { tool_name } : {}),
  }
  return { codec: kind, transport: 'redis', to, data }
}

/** Without a key of the sender, its correlation id is the idempotency key. */
function inputOf(value: JsonObject, message: Message): CallInput {
  const { idem_key, correlation_id, tool_name, tool_args = {} } = value
  const idempotencyKey = String(idem_key ?? correlation_id ?? placeKey(message))
  const origin = originOf(value)
  return { kind: 'call', tool: String(tool_name), args: tool_args, idempotencyKey, ...origin }
}

const isLabel = (value: Json): boolean => isShortText(value) || typeof value === 'number'
/** The members of `ctx` that describe the request and not its sender, and the check of each. */
const occasion: { readonly [name: string]: (value: Json) => boolean } = {
  user_name: isLabel,
  message_id: isLabel,
  observability_request_id: isLabel,
  disclosed_skill_ids: (value) => Array.isArray(value) && value.every(isShortText),
  room_context: () => true,
}
const occasionLimits = { bytes: 16_384, depth: 16, nodes: 1_000 }

/** The context of the request for the tool; a member that is too large or of another type is named in `omitted`. */
function originOf({ ctx }: JsonObject): Pick<CallInput, 'origin'> {
  const given = isObject(ctx) ? withoutBlanks(ctx) : {}
  const origin: JsonObject = {}
  const omitted: string[] = []
  let bytesLeft = occasionLimits.bytes
  for (const [name, fits] of Object.entries(occasion)) {
    const value = given[name]
    if (value === undefined) continue
    const copied = fits(value) ? copyWithin(value, bytesLeft) : undefined
    if (copied === undefined) omitted.push(name)
    else origin[name] = copied
    bytesLeft -= copied === undefined ? 0 : Buffer.byteLength(JSON.stringify(copied))
  }
  if (omitted.length > 0) origin.omitted = omitted
  return Object.keys(origin).length === 0 ? {} : { origin }
}

function copyWithin(value: Json, bytes: number): Json | undefined {
  try {
    return copyJson(value, { limits: { ...occasionLimits, bytes }, dropped: { count: 0 } })
  } catch {
    return undefined
  }
}

interface StargazerReply {
  readonly correlation_id: Json
  readonly result?: string
  readonly error?: string
  readonly [member: string]: unknown
}

function replyOf(
  { correlation_id = null, tool_name }: JsonObject,
  reply: Reply,
  options: StargazerOptions,
): StargazerReply {
  const { toolName = (id) => id, errorText = false } = options
  const end = endOf(reply)
  if (end.status !== 'ok') {
    if (end.error.code === 'CATALOG_STALE') return { correlation_id, status: 'CATALOG_STALE' }
    const { message, code } = errorOnWire(end.error)
    const raised = errorText ? undefined : raisedText(tool_name, end.error)
    return { correlation_id, error: raised ?? message, code }
  }
  return {
    correlation_id,
    result: textOf(end.output, reply),
    writeback: {
      sent_files: filesOf(reply).map(fileOnWire),
      injected_tools: effectsOf(reply, 'tool').map(({ tool }) => toolName(tool)),
      sent_rich_messages: effectsOf(reply, 'message').map(({ message }) => message),
    },
  }
}

/** The text that the tool returned; for an output that was not text, its JSON. */
function textOf(output: Json, reply: Reply): string {
  if (typeof output === 'string') return output
  const json = JSON.stringify(output)
  const given = reply.kind === 'ended' && 'content' in reply.result ? reply.result.content : []
  const [only] = given
  return given.length === 1 && only?.type === 'text' && isTextOf(only.text, json) ? only.text : json
}

/**
 * Whether the output was parsed from the text: a redacted or truncated one, or an output in addition to the text, has another
 * value.
 */
function isTextOf(text: string, json: string): boolean {
  try {
    return JSON.stringify(parseAnswer(text)) === json
  } catch {
    return false
  }
}

function fileOnWire({ name, mimeType, content, artifact, bytes, digest }: ReplyFile) {
  const about = { filename: name, mime_type: mimeType }
  return content === undefined ? { ...about, artifact, bytes, digest } : { ...about, data: content }
}

/** Redis keys that the gateway and the worker use for other data. */
const otherKeys = /^sg:(?:pubsub|tools:(?:session|catalog|claim|result)):/
/** Printable ASCII without the special characters of Redis patterns. */
const plainKey = /^sg:[^\s*?[\]\\]{1,197}$/

/**
 * The default rule for reply streams: a stream of the gateway that is named as one for replies, and none of the
 * reserved streams, which are those of calls, dead letters and messages.
 */
export function stargazerReplyRule(reserved: readonly string[]): (to: string) => boolean {
  return (to) => {
    const ascii = /^[\x21-\x7e]*$/.test(to)
    return ascii && plainKey.test(to) && to.includes('repl') && !otherKeys.test(to) && !reserved.includes(to)
  }
}
