import type { JsonObject, ToolError } from '@gantry/contract'
import { readTraceparent } from '@gantry/core/internal/tracing/tracer'
import type { CallInput, ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message } from '../transports/transport.ts'
import { type Codec, defaultMessageLimits, foreignAddress, type MessageLimits, readJson } from './codec.ts'
import {
  anything,
  invalidMessage,
  isShortText,
  list,
  looksLikeJsonObject,
  type MemberRules,
  number,
  object,
  required,
  text,
  unknownMembers,
  wrongMembers,
} from './members.ts'
import { callIdOf, errorOnWire, jsonBytes, placeKey } from './wire.ts'

export interface NativeOptions {
  /** The broker of the messages and of their replies. */
  readonly transport: 'kafka' | 'redis'
  /** Whether replies may be sent to the topic or stream that a sender names. */
  readonly mayReplyTo: (to: string) => boolean
  /** The reply address of messages that name none; without it such calls get no reply. */
  readonly defaultReplyTo?: string
  readonly deadLettersTo: string
  readonly limits?: MessageLimits
}

const kind = 'native'
const kindRule = { is: (value: unknown) => value === 'call' || value === 'chain', must: 'must be "call" or "chain"' }
const common: MemberRules = {
  kind: kindRule,
  idempotencyKey: text,
  correlationId: text,
  replyTo: text,
  schemaDigest: text,
  deadline: text,
  priority: number,
  timeoutMs: number,
  delayMs: number,
  traceparent: anything,
  onCircuitOpen: text,
}
const ofCall: MemberRules = { tool: required(text), args: object, ...common }
const ofChain: MemberRules = { steps: required(list), input: anything, ...common }

/**
 * Gantry's own messages, as JSON:
 * `{ tool, args, idempotencyKey?, correlationId?, replyTo?, priority?, timeoutMs?, delayMs?, deadline?, schemaDigest?,
 * traceparent?, onCircuitOpen? }`, or with `steps` and `input` in place of `tool` and `args` for a chain. A message
 * carries no identity. The reply is `{ correlationId?, callId, result }` or `{ correlationId?, error }`; messages of a
 * running tool go to the same address, as `{ correlationId?, callId, number, message }`.
 * Admission checks the ranges of the values, as for every call; an invalid `traceparent` is ignored, as W3C requires.
 */
export function nativeCodec(options: NativeOptions): Codec {
  const limits = options.limits ?? defaultMessageLimits
  return {
    kind,
    speaks: ({ bytes }) => looksLikeJsonObject(bytes),
    decode(message) {
      const { value, error: unreadable } = readJson(message.bytes, limits)
      const reply = replyOf(value, options)
      if ('code' in reply) return { kind: 'invalid', error: unreadable ?? reply }
      const error = unreadable ?? wrongShape(value)
      if (error !== undefined) return { kind: 'invalid', error, ...reply }
      return { kind: 'call', input: inputOf(value, message), ...reply }
    },
    reply({ to, data }, reply) {
      if (reply.kind === 'refused') return outgoing(to, data, { error: errorOnWire(reply.error) })
      return outgoing(to, data, { callId: callIdOf(reply.result), result: reply.result })
    },
    send: ({ to, data }, { callId, number, message }) => outgoing(to, data, { callId, number, message }),
    deadLetter(message, { error, deliveries }, now) {
      const { bytes, source, position } = message
      const about = { source, position, deliveries, error: errorOnWire(error), at: now.toISOString() }
      const deadLetter = { ...about, ...kept(bytes, limits.bytes / 2) }
      return { to: options.deadLettersTo, bytes: jsonBytes(deadLetter), key: placeKey(message) }
    },
  }
}

/** The reply address, if any; an error when it is not allowed. */
function replyOf(
  { replyTo, correlationId }: JsonObject,
  options: NativeOptions,
): { readonly address?: ReplyAddress } | ToolError {
  const { transport, mayReplyTo, defaultReplyTo } = options
  if (replyTo !== undefined && !isShortText(replyTo)) return invalidMessage([{ path: '/replyTo', message: text.must }])
  if (replyTo !== undefined && !mayReplyTo(replyTo)) return foreignAddress('/replyTo')
  const to = replyTo ?? defaultReplyTo
  if (to === undefined) return {}
  return { address: { codec: kind, transport, to, data: isShortText(correlationId) ? { correlationId } : {} } }
}

function wrongShape(value: JsonObject): ToolError | undefined {
  const rules = kindOf(value) === 'chain' ? ofChain : ofCall
  const issues = [...unknownMembers(value, rules), ...wrongMembers(value, rules)]
  return issues.length === 0 ? undefined : invalidMessage(issues)
}

function kindOf({ kind, steps }: JsonObject): 'call' | 'chain' {
  return kind === 'chain' || (kind === undefined && steps !== undefined) ? 'chain' : 'call'
}

/** The rules have checked the types of this cast. */
function inputOf(value: JsonObject, message: Message): CallInput {
  const { correlationId: _id, replyTo: _to, kind: _kind, tool, args, steps, input, traceparent, ...rest } = value
  const place = readTraceparent(traceparent) ?? readTraceparent(headerOf(message, 'traceparent'))
  const chain = { args: { steps, ...(input === undefined ? {} : { input }) } }
  const asked = kindOf(value) === 'chain' ? chain : { ...(isShortText(tool) ? { tool } : {}), args: args ?? {} }
  return {
    kind: kindOf(value),
    idempotencyKey: placeKey(message),
    ...asked,
    ...(rest as Partial<CallInput>),
    ...(place === undefined ? {} : { traceparent: place }),
  }
}

function headerOf({ headers }: Message, name: string): string {
  return Buffer.from(headers.get(name)?.subarray(0, 200) ?? []).toString('latin1')
}

function outgoing(
  to: string,
  { correlationId }: JsonObject,
  body: { readonly callId?: string; readonly [name: string]: unknown },
) {
  const named = correlationId === undefined ? {} : { correlationId }
  const key = correlationId ?? body.callId
  return { to, bytes: jsonBytes({ ...named, ...body }), ...(typeof key === 'string' ? { key } : {}) }
}

/** The beginning of an unhandled message, as text where it is text; small enough for a broker to accept again. */
function kept(bytes: Uint8Array, most: number): { readonly message: string } | { readonly base64: string } {
  const part = Buffer.from(bytes.subarray(0, most))
  const message = part.toString()
  return message.includes('\ufffd') ? { base64: part.toString('base64') } : { message }
}
