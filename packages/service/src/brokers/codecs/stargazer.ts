import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import { parseAnswer } from '@gantry/core/internal/json/parse'
import type { CallInput } from '../../storage/call-input.ts'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message } from '../transports/message.ts'
import {
  type Codec,
  defaultMessageLimits,
  foreignAddress,
  type MessageLimits,
  type Reply,
  type ReplyFile,
} from './codec.ts'
import {
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
import { encodeMsgpack } from './msgpack.ts'
import { readMsgpack } from './read-message.ts'
import { callIdOf, effectsOf, endOf, errorOnWire, filesOf, placeKey, raisedText } from './wire.ts'

export interface StargazerOptions {
  /** Whether answers may be sent to the stream that an envelope names; see `stargazerReplyRule`. */
  readonly mayReplyTo: (to: string) => boolean
  /** Where messages go that tools send while they run; without it they have no place. */
  readonly messagesTo?: string
  /** Whether the text of an exception goes out; the name of its class does otherwise. */
  readonly errorText?: boolean
  /** `sg:stream:dlq` */
  readonly deadLettersTo?: string
  /** The name that the gateway has for a tool, by its id; the id itself. What it calls is left as it calls it. */
  readonly toolName?: (id: string) => string
  readonly limits?: MessageLimits
}

const kind = 'stargazer'
const members: MemberRules = {
  ...{ correlation_id: text, reply_to: text, idem_key: text, schema_hash: text },
  ...{ tool_name: required(text), tool_args: object, ctx: object },
}

/**
 * The envelopes of the Stargazer gateway, MessagePack on a Redis stream. The sender is known by the session record at
 * `ctx.trace_id`, which the gateway wrote; what the envelope says of users, channels and platforms decides nothing. What
 * it says of the occasion goes to the tool as data. An envelope without a session is refused here, whatever the host would make of it.
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
      const foreign = isText(reply_to) && !options.mayReplyTo(reply_to)
      const error = read.error ?? (foreign ? foreignAddress('/reply_to') : wrongShape(value))
      const address = isText(reply_to) && !foreign ? { address: addressOf(value, reply_to) } : {}
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
      const said = result === undefined ? { status: 'failed', error: error ?? '' } : { status: 'completed', result }
      const short = Object.entries(said).map(([name, text]) => [name, shortened(text)])
      const fields = { ...taskFields(data, callId), ...Object.fromEntries(short), finished_at: secondsOf(now) }
      return { key: `${tasksBelow}${callId}`, fields, ttlMs: endedTaskMs }
    },
    // The seed spreads these over the fields of the entry; here they are one map, as everything in the field `data` is.
    deadLetter({ bytes, source, position }, { error, deliveries }, now) {
      const data = bytes.slice(0, limits.bytes)
      const letter = {
        original_stream: source,
        original_msg_id: position,
        error: error.message,
        attempt: deliveries,
        data,
      }
      const trace_id = traceIdOf(readMsgpack(bytes, limits).value)
      return { to: deadLettersTo, bytes: encodeMsgpack({ ...letter, ts: now.getTime() / 1_000, trace_id }) }
    },
  }
}

/** Where the gateway finds the record of a background task, by its id. */
const tasksBelow = 'sg:task:'
const runningTaskMs = 86_400_000
const endedTaskMs = 3_600_000
/** Of a result in the record of its task; the answer and `check_task` have the whole. */
const longestTaskText = 262_144

/** The interim answer in place of a result; a reply like any other, so that the gateway needs no change. */
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
  const named = { correlation_id, trace_id, tool_name }
  const texts = Object.entries(named).flatMap(([name, value]) => (isText(value) ? [[name, value]] : []))
  return { task_id: callId, ...(Object.fromEntries(texts) as { [name: string]: string }) }
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

/** The session, or nothing. */
function traceIdOf({ ctx }: JsonObject): string {
  return isObject(ctx) && isText(ctx.trace_id) ? ctx.trace_id : ''
}

function addressOf(value: JsonObject, to: string): ReplyAddress {
  const { correlation_id, tool_name } = value
  const data = {
    ...{ correlation_id: isText(correlation_id) ? correlation_id : null, trace_id: traceIdOf(value) },
    ...(isText(tool_name) ? { tool_name } : {}),
  }
  return { codec: kind, transport: 'redis', to, data }
}

/** Without a key of the sender, the id that it knows the call by is as good. */
function inputOf(value: JsonObject, message: Message): CallInput {
  const { idem_key, correlation_id, tool_name, tool_args = {} } = value
  const idempotencyKey = String(idem_key ?? correlation_id ?? placeKey(message))
  const origin = originOf(value)
  return { kind: 'call', tool: String(tool_name), args: tool_args, idempotencyKey, ...origin }
}

const isLabel = (value: Json): boolean => isText(value) || typeof value === 'number'
/** The members of `ctx` that say of the occasion and not of the sender, and what each may be. */
const occasion: { readonly [name: string]: (value: Json) => boolean } = {
  ...{ user_name: isLabel, message_id: isLabel, observability_request_id: isLabel },
  disclosed_skill_ids: (value) => Array.isArray(value) && value.every(isText),
  room_context: () => true,
}
const occasionLimits = { bytes: 16_384, depth: 16, nodes: 1_000 }

/** What the envelope says of the occasion, for the tool; what is too large or of another type is named in `omitted`. */
function originOf({ ctx }: JsonObject): Pick<CallInput, 'origin'> {
  const given = isObject(ctx) ? withoutBlanks(ctx) : {}
  const origin: JsonObject = {}
  const omitted: string[] = []
  let room = occasionLimits.bytes
  for (const [name, fits] of Object.entries(occasion)) {
    const value = given[name]
    if (value === undefined) continue
    const copied = fits(value) ? copyWithin(value, room) : undefined
    if (copied === undefined) omitted.push(name)
    else origin[name] = copied
    room -= copied === undefined ? 0 : Buffer.byteLength(JSON.stringify(copied))
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

/** The text that the tool gave, as the seed sends it; of an output that was none, its JSON. */
function textOf(output: Json, reply: Reply): string {
  if (typeof output === 'string') return output
  const json = JSON.stringify(output)
  const given = reply.kind === 'ended' && 'content' in reply.result ? reply.result.content : []
  const [only] = given
  return given.length === 1 && only?.type === 'text' && isTextOf(only.text, json) ? only.text : json
}

/** Whether the output was read from the text: one that was redacted, cut or is beside the text has another value. */
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

/** Redis keys that the gateway and the worker keep other things under. */
const otherKeys = /^sg:(?:pubsub|tools:(?:session|catalog|claim|result)):/
/** Printable ASCII without what a pattern of Redis would read. */
const plainKey = /^sg:[^\s*?[\]\\]{1,197}$/

/**
 * The usual rule for where answers may go: a stream of the gateway that calls itself one for replies, and none of the
 * reserved ones, which are those of jobs, dead letters and messages.
 */
export function stargazerReplyRule(reserved: readonly string[]): (to: string) => boolean {
  return (to) => {
    const ascii = /^[\x21-\x7e]*$/.test(to)
    return ascii && plainKey.test(to) && to.includes('repl') && !otherKeys.test(to) && !reserved.includes(to)
  }
}
