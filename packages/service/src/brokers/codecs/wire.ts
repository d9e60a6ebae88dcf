import { createHash } from 'node:crypto'
import {
  type ChainResult,
  codes,
  type Effect,
  type ErrorInfo,
  type Json,
  type JsonObject,
  type Result,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '@gantry/core/internal/json/plain'
import type { Message } from '../transports/transport.ts'
import type { Reply, ReplyFile } from './codec.ts'
import { isShortText } from './members.ts'

const longestMessage = 10_000

/** An error for the other side: without its cause, and with details only if they are JSON. */
export function errorOnWire(error: ToolError | ErrorInfo): Omit<ErrorInfo, 'cause'> {
  const { code, message, stage, retryable, effect, details } = error
  return {
    code,
    message: message.slice(0, longestMessage),
    stage,
    retryable,
    effect,
    ...(details === undefined ? {} : { details: plain(details) }),
  }
}

/** A valid class name; what a tool throws is as hostile as what it returns. */
const className = /^[A-Za-z_$][\w$.]{0,99}$/

/** The class of the exception that a tool ended with; undefined for an error of Gantry itself. */
function exceptionOf({ code, cause }: ToolError | ErrorInfo): string | undefined {
  if (code !== 'BACKEND_FAILED' || cause === undefined || cause === null) return undefined
  const name = (typeof cause === 'object' || typeof cause === 'function') && 'name' in cause ? cause.name : undefined
  return typeof name === 'string' && className.test(name) ? name : 'Error'
}

/** The gateway gets the class of an exception; its text is for the log. Undefined for an error of Gantry itself. */
export function raisedText(tool: Json | undefined, error: ToolError | ErrorInfo): string | undefined {
  const exception = exceptionOf(error)
  return exception && `Tool '${isShortText(tool) ? tool : '?'}' raised ${exception} on the tools service.`
}

/** The status and error of an outcome. */
export type End =
  | { readonly status: 'ok'; readonly output: Json }
  | { readonly status: Exclude<Result['status'], 'ok'>; readonly error: ToolError | ErrorInfo }

export function endOf(reply: Reply): End {
  if (reply.kind === 'refused') return { status: codes[reply.error.code].status, error: reply.error }
  const { status, output, error } = reply.result
  if (status === 'ok') return { status, output }
  return { status, error: error ?? new ToolError('INTERNAL', `The call ended as ${status} without an error.`) }
}

export function filesOf(reply: Reply): readonly ReplyFile[] {
  return reply.kind === 'ended' ? reply.files : []
}

export function callIdOf(result: Result | ChainResult): string {
  return 'chainId' in result ? result.chainId : result.callId
}

/** The effects of one kind; those of a chain belong to its steps. */
export function effectsOf<K extends Effect['kind']>(reply: Reply, kind: K): Extract<Effect, { kind: K }>[] {
  if (reply.kind !== 'ended' || 'chainId' in reply.result) return []
  return reply.result.effects.filter((effect): effect is Extract<Effect, { kind: K }> => effect.kind === kind)
}

/** The idempotency key of a message without one: its position, which is the same at every delivery. */
export function placeKey({ source, position }: Message): string {
  const place = `${source}/${position}`
  return isShortText(place) ? place : createHash('sha256').update(place).digest('hex')
}

/** An id in the form of a UUID, the same for the same parts. */
export function stableId(...parts: readonly string[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  // Version 8 of UUID leaves the content free.
  const fields = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`, `8${hash.slice(17, 20)}`]
  return [...fields, hash.slice(20, 32)].join('-')
}

export function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

function plain(details: object): JsonObject {
  try {
    const copied = copyJson(details, { convert: true, dropped: { count: 0 } })
    return isObject(copied) ? copied : {}
  } catch {
    return {}
  }
}
