import { type ChainResult, type Json, type JsonObject, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { JsonError } from '@gantry/core/internal/json/plain'
import type { CallInput, ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message, Outgoing } from '../transports/transport.ts'
import { invalidMessage, printable } from './members.ts'
import { type BinaryMembers, decodeMsgpack } from './msgpack.ts'

/** A decoded message. */
export type Decoded =
  | {
      readonly kind: 'call'
      /** Always with an idempotency key: the position of the message where the sender gave none. */
      readonly input: CallInput
      /** The session of the sender, when the codec identifies senders by sessions. */
      readonly session?: string
      /** The hash of the catalog that the sender saw; empty when the sender could have named one and did not. */
      readonly catalogHash?: string
      /**
       * JSON pointers of arguments that were binary data and are base64 text now; only schemas that expect it accept
       * them.
       */
      readonly binary?: readonly string[]
      readonly address?: ReplyAddress
    }
  /** The message can be answered, if it has an address, but is no valid call. */
  | { readonly kind: 'invalid'; readonly error: ToolError; readonly address?: ReplyAddress }

/** A file that is sent with a reply. */
export interface ReplyFile {
  readonly name: string
  readonly mimeType: string
  readonly bytes: number
  readonly digest: string
  /** The content, when it is small enough to be inlined; else the receiver fetches the artifact. */
  readonly content?: Uint8Array
  readonly artifact: string
}

/** The content of a reply: an outcome or a refusal. */
export type Reply =
  | { readonly kind: 'ended'; readonly result: Result | ChainResult; readonly files: readonly ReplyFile[] }
  | { readonly kind: 'refused'; readonly error: ToolError }

/**
 * The format of one kind of gateway. A codec only converts bytes: it uses no broker, no store and no clock.
 * - Errors: `decode` never throws; for any bytes it returns a call or what is wrong with them.
 */
export interface Codec {
  readonly kind: string
  /** Whether the message looks like one of this codec; cheap, and called before `decode`. */
  speaks(message: Message): boolean
  decode(message: Message): Decoded
  /** The reply to a call; the same bytes for the same outcome, except for the time. */
  reply(address: ReplyAddress, reply: Reply, now: Date): Outgoing
  /** A message that a tool sent while it ran; undefined when the gateway has no format for it. */
  send?(address: ReplyAddress, sent: SentMessage, now: Date): Outgoing | undefined
  /** The start of a call; undefined when the gateway has no format for it. */
  started?(address: ReplyAddress, call: RunningCall, now: Date): Outgoing | undefined
  /** The progress of a call. */
  progress?(address: ReplyAddress, progress: CallProgress, now: Date): Outgoing | undefined
  /** The interim answer to a long call: it goes on in the background, under the id of a task. */
  background?(address: ReplyAddress, call: RunningCall, since: Date): Background
  /** The end of a call, for subscribers that do not wait for the reply; sent after it. */
  ended?(address: ReplyAddress, reply: Reply, now: Date): Outgoing | undefined
  /** The record of the background task after the end of the call. */
  endedTask?(address: ReplyAddress, reply: Reply, now: Date): TaskRecord | undefined
  /** A message that could not be handled, for the dead letters of the broker. */
  deadLetter?(message: Message, failure: DeadMessage, now: Date): Outgoing
}

export interface SentMessage {
  readonly callId: string
  /** Its number among the messages of the call, from 1. */
  readonly number: number
  readonly message: Json
}

export interface DeadMessage {
  readonly error: ToolError
  readonly deliveries: number
}

/** A call that has not ended; repeating the notice changes nothing. */
export interface RunningCall {
  readonly callId: string
}

export interface CallProgress extends RunningCall {
  /** Identifies the attempt, because each attempt numbers its progress anew. */
  readonly fence: number
  /** Its number among the progress messages of the attempt, from 1. */
  readonly number: number
  readonly progress: number
  readonly total?: number
  readonly message?: string
}

interface Background {
  readonly answer: Outgoing
  readonly task: TaskRecord
}

/** The record of a background task as the gateway reads it: a hash in its broker. */
export interface TaskRecord {
  readonly key: string
  readonly fields: { readonly [name: string]: string }
  readonly ttlMs: number
}

/** Limits of one message, checked before anything of it is trusted. */
export interface MessageLimits {
  readonly bytes: number
  readonly depth: number
  /** The total number of members and elements. */
  readonly nodes: number
  /** The bytes of one text; in JSON the bytes of the message suffice as a limit. */
  readonly stringBytes: number
}

export const defaultMessageLimits: MessageLimits = {
  bytes: 1_048_576,
  depth: 64,
  nodes: 10_000,
  stringBytes: 262_144,
}

/** Refuses a reply address that is not allowed, without repeating it. */
export function foreignAddress(path: string): ToolError {
  const message = 'is not an allowed reply address'
  const details = { issues: [{ path, message }] }
  return new ToolError('DENIED', `The message is refused: ${path} ${message}.`, { details, stage: 'admit' })
}

/** The first codec that recognises the message; undefined when none does. */
export function pickCodec(codecs: readonly Codec[], message: Message): Codec | undefined {
  return codecs.find((codec) => codec.speaks(message))
}

/** The object of a message; or the error, with the members that could be read, which serve for a reply only. */
interface ReadMessage {
  readonly value: JsonObject
  readonly error?: ToolError
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads a message of JSON text; never throws. */
export function readJson(bytes: Uint8Array, limits: MessageLimits): ReadMessage {
  if (bytes.length > limits.bytes) return { value: {}, error: tooLarge(limits) }
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (cause) {
    return { value: {}, error: invalidMessage([{ path: '', message: 'it is not UTF-8' }], cause) }
  }
  try {
    return asObject(parseJson(text, limits))
  } catch (error) {
    return { value: leniently(text), error: refusalOf(error) }
  }
}

/** Reads a message of MessagePack; never throws. */
export function readMsgpack(bytes: Uint8Array, limits: MessageLimits, binary?: BinaryMembers): ReadMessage {
  if (bytes.length > limits.bytes) return { value: {}, error: tooLarge(limits) }
  const outermost: JsonObject = {}
  try {
    return asObject(decodeMsgpack(bytes, limits, outermost, binary))
  } catch (error) {
    return { value: outermost, error: refusalOf(error) }
  }
}

function asObject(value: Json): ReadMessage {
  if (isObject(value)) return { value }
  return { value: {}, error: invalidMessage([{ path: '', message: 'it must be an object' }]) }
}

/** Bytes over a limit, or with numbers that lose digits, are still JSON and may hold the reply address. */
function leniently(text: string): JsonObject {
  try {
    const value: Json = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

function refusalOf(error: unknown): ToolError {
  if (!(error instanceof JsonError)) return invalidMessage([{ path: '', message: 'it cannot be read' }], error)
  const path = printable(error.path.slice(0, 200))
  return invalidMessage([{ path, message: printable(path === '' ? `it ${error.message}` : error.message) }], error)
}

function tooLarge({ bytes }: MessageLimits): ToolError {
  return new ToolError('PAYLOAD_TOO_LARGE', `The message is longer than ${bytes} bytes.`, { details: { bytes } })
}
