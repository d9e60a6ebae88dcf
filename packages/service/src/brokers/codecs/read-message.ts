import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { JsonError } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import type { MessageLimits } from './codec.ts'
import { invalidMessage, isObject, printable } from './members.ts'
import { type BinaryMembers, decodeMsgpack } from './msgpack.ts'

/** The object that a message is; or why it is none, with what could be read of it, which is good for an answer only. */
export interface ReadMessage {
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

/** What is over a limit or loses digits is JSON still, and says whom to answer. */
function leniently(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text)
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
