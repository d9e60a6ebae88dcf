import { type ChainResult, type Json, type Result, ToolError } from '@gantry/contract'
import type { CallInput } from '../../storage/call-input.ts'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message, Outgoing } from '../transports/message.ts'

/** What a message asks for. */
export type Decoded =
  | {
      readonly kind: 'call'
      /** With an idempotency key always: where the sender gave none, the place of the message is its name. */
      readonly input: CallInput
      /** The session that the sender belongs to, when the codec knows senders by sessions. */
      readonly session?: string
      /** Hash of the whole catalog that the sender saw; empty when it could have named one and did not. */
      readonly catalogHash?: string
      /** JSON pointers of arguments that were binary data and are base64 text now: only for schemas that say so. */
      readonly binary?: readonly string[]
      readonly address?: ReplyAddress
    }
  /** It can be read far enough to answer, if there is an address, but not to call anything. */
  | { readonly kind: 'invalid'; readonly error: ToolError; readonly address?: ReplyAddress }

/** A file that goes with a reply. */
export interface ReplyFile {
  readonly name: string
  readonly mimeType: string
  readonly bytes: number
  readonly digest: string
  /** The content, when it is small enough to travel with the reply; else it is fetched by its artifact. */
  readonly content?: Uint8Array
  readonly artifact: string
}

/** What is to be answered. */
export type Reply =
  | { readonly kind: 'ended'; readonly result: Result | ChainResult; readonly files: readonly ReplyFile[] }
  | { readonly kind: 'refused'; readonly error: ToolError }

/**
 * The language of one kind of gateway. It knows nothing but bytes: no broker, no store, no clock but what it is given.
 * - Errors: `decode` never throws; whatever the bytes are, the answer is a call or what is wrong with them.
 */
export interface Codec {
  readonly kind: string
  /** Whether the message looks like one of this codec; cheap, and asked before `decode`. */
  speaks(message: Message): boolean
  decode(message: Message): Decoded
  /** The one answer to a call, the same bytes whenever it is asked for the same, but for the time. */
  reply(address: ReplyAddress, reply: Reply, now: Date): Outgoing
  /** A message that a tool sent while it ran; undefined when the gateway has no place for it. */
  send?(address: ReplyAddress, sent: SentMessage, now: Date): Outgoing | undefined
  /** That the work on a call begins; undefined when the gateway has no place for it. */
  started?(address: ReplyAddress, call: RunningCall, now: Date): Outgoing | undefined
  /** How far a call is. */
  progress?(address: ReplyAddress, progress: CallProgress, now: Date): Outgoing | undefined
  /** The interim answer to a call that takes long: it goes on in the background, under the id of a task. */
  background?(address: ReplyAddress, call: RunningCall, since: Date): Background
  /** How a call ended, for those who watch it rather than wait for it; sent behind the answer. */
  ended?(address: ReplyAddress, reply: Reply, now: Date): Outgoing | undefined
  /** What the record of the background task says from the end of the call on. */
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

/** A call that has not ended; sending it again changes nothing. */
export interface RunningCall {
  readonly callId: string
}

export interface CallProgress extends RunningCall {
  /** Names the attempt, because a later one counts anew. */
  readonly fence: number
  /** Its number among those that were sent of the attempt, from 1. */
  readonly number: number
  readonly progress: number
  readonly total?: number
  readonly message?: string
}

interface Background {
  readonly answer: Outgoing
  readonly task: TaskRecord
}

/** The record of a background task, where the gateway looks for it: a hash of its broker. */
export interface TaskRecord {
  readonly key: string
  readonly fields: { readonly [name: string]: string }
  readonly ttlMs: number
}

/** Ceilings for one message, as it came and before anybody believes a word of it. */
export interface MessageLimits {
  readonly bytes: number
  readonly depth: number
  /** Members and elements in all. */
  readonly nodes: number
  /** Of one text; in JSON the bytes of the message are ceiling enough. */
  readonly stringBytes: number
}

export const defaultMessageLimits: MessageLimits = {
  bytes: 1_048_576,
  depth: 64,
  nodes: 10_000,
  stringBytes: 262_144,
}

/** The refusal of a message that wants its answer sent where it must not go; the place itself is not repeated. */
export function foreignAddress(path: string): ToolError {
  const message = 'is not a place where answers may be sent'
  const details = { issues: [{ path, message }] }
  return new ToolError('DENIED', `The message cannot be taken: ${path} ${message}.`, { details, stage: 'admit' })
}

/** The first codec that the message looks like one of; undefined when it is in nobody's language. */
export function pickCodec(codecs: readonly Codec[], message: Message): Codec | undefined {
  return codecs.find((codec) => codec.speaks(message))
}
