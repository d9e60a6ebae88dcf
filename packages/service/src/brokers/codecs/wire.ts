import { createHash } from 'node:crypto'
import {
  type ChainResult,
  codes,
  type Effect,
  type ErrorInfo,
  type Json,
  type Result,
  ToolError,
} from '@gantry/contract'
import { copyJson } from '@gantry/core/internal/json/copy'
import type { Message } from '../transports/message.ts'
import type { Reply, ReplyFile } from './codec.ts'
import { isText } from './members.ts'

const longestMessage = 10_000

/** An error for the other side: causes stay here, and details leave as JSON or not at all. */
export function errorOnWire(error: ToolError | ErrorInfo): Omit<ErrorInfo, 'cause'> {
  const { code, message, stage, retryable, effect, details } = error
  return {
    ...{ code, message: message.slice(0, longestMessage), stage, retryable, effect },
    ...(details === undefined ? {} : { details: plain(details) }),
  }
}

/** A name that a class can have; what a tool throws is as hostile as what it returns. */
const className = /^[A-Za-z_$][\w$.]{0,99}$/

/** The class of the exception that a tool ended with; undefined for an error with a text of our own. */
function exceptionOf({ code, cause }: ToolError | ErrorInfo): string | undefined {
  if (code !== 'BACKEND_FAILED' || cause === undefined || cause === null) return undefined
  const { name } = cause as { readonly name?: unknown }
  return typeof name === 'string' && className.test(name) ? name : 'Error'
}

/**
 * As the seed says it: the class of an exception is for the gateway, its text for the log. Undefined for an error with a
 * text of our own.
 */
export function raisedText(tool: Json | undefined, error: ToolError | ErrorInfo): string | undefined {
  const exception = exceptionOf(error)
  return exception && `Tool '${isText(tool) ? tool : '?'}' raised ${exception} on the tools service.`
}

/** How it ended. */
export type End =
  | { readonly status: 'ok'; readonly output: Json }
  | { readonly status: Exclude<Result['status'], 'ok'>; readonly error: ToolError | ErrorInfo }

export function endOf(reply: Reply): End {
  if (reply.kind === 'refused') return { status: codes[reply.error.code].status, error: reply.error }
  const { status, output, error } = reply.result
  if (status === 'ok') return { status, output }
  return { status, error: error ?? new ToolError('INTERNAL', `The call ended as ${status}, and nothing says why.`) }
}

export function filesOf(reply: Reply): readonly ReplyFile[] {
  return reply.kind === 'ended' ? reply.files : []
}

export function callIdOf(result: Result | ChainResult): string {
  return 'chainId' in result ? result.chainId : result.callId
}

/** The write-backs of one kind; those of a chain belong to its steps. */
export function effectsOf<K extends Effect['kind']>(reply: Reply, kind: K): Extract<Effect, { kind: K }>[] {
  if (reply.kind !== 'ended' || 'chainId' in reply.result) return []
  return reply.result.effects.filter((effect): effect is Extract<Effect, { kind: K }> => effect.kind === kind)
}

/** The name of a message whose sender gave it none: where it stands, which is the same at every delivery. */
export function placeKey({ source, position }: Message): string {
  const place = `${source}/${position}`
  return isText(place) ? place : createHash('sha256').update(place).digest('hex')
}

/** An id in the form of a UUID that is the same whenever it is made of the same parts. */
export function stableId(...parts: readonly string[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  // The digits of a UUID of version 8, whose content is anybody's own.
  const fields = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`, `8${hash.slice(17, 20)}`]
  return [...fields, hash.slice(20, 32)].join('-')
}

export function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

function plain(details: object): { [key: string]: Json } {
  try {
    return copyJson(details, { convert: true, dropped: { count: 0 } }) as { [key: string]: Json }
  } catch {
    return {}
  }
}
