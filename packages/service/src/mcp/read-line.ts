import { JsonError } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import { isAnswer, type RefusedJson, refusedJson, refusedMessage, requestIdOf } from './refused-json.ts'
import type { McpSdk } from './sdk.ts'

export interface ReadLineOptions {
  /** Whether a value is a message as the SDK takes it. */
  readonly isMessage: (value: unknown) => boolean
  readonly most: number
}

/** What a line holds: messages, each as a line of its own, or what is answered because it goes no further. */
export type ReadLine =
  | { readonly kind: 'taken'; readonly lines: readonly (Buffer | string)[] }
  | { readonly kind: 'refused'; readonly answers: readonly RefusedJson[] }

/** Only one revision, of 2025-03-26, has batches at all. */
export const mostInBatch = 50

/** As for the body of a request over HTTP: arguments may be 64 levels deep, and stand a few levels below the message. */
const messageDepth = 72
const messageNodes = 100_000
const versionMeta = 'io.modelcontextprotocol/protocolVersion'
const noMessage =
  'This is no message of JSON-RPC 2.0: one has jsonrpc "2.0", a method, params that are an object if there are any, ' +
  'and, to be answered, an id that is a text or a whole number.'

/** Reads a line with its end. What wants no answer, because it tells or answers something, is never refused for its form. */
export function readLine(line: Buffer, { isMessage, most }: ReadLineOptions): ReadLine {
  const text = line.toString('utf8').replace(/\r?\n$/, '')
  if (/^[ \t\r]*$/.test(text)) return { kind: 'taken', lines: [] }
  let value: unknown
  try {
    value = parseJson(text, { bytes: most, depth: messageDepth, nodes: messageNodes })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const where = `${error.path.slice(0, 200)} ${error.message}`.trim()
    return { kind: 'refused', answers: [refusedJson(text, `The message cannot be taken: ${where}.`)] }
  }
  if (Array.isArray(value)) return readBatch(value, isMessage)
  if (isMessage(value) || isUnanswered(value)) return { kind: 'taken', lines: [line] }
  return { kind: 'refused', answers: [refusedMessage(requestIdOf(value), noMessage)] }
}

/** Takes a batch as the endpoint of the service does, all of it or nothing; what is refused is so under each of its ids. */
function readBatch(batch: readonly unknown[], isMessage: (value: unknown) => boolean): ReadLine {
  const reason = batchFault(batch, isMessage)
  if (reason === undefined) return { kind: 'taken', lines: batch.map((one) => `${JSON.stringify(one)}\n`) }
  const ids = batch.map(requestIdOf).filter((id) => id !== null)
  return { kind: 'refused', answers: (ids.length === 0 ? [null] : ids).map((id) => refusedMessage(id, reason)) }
}

function batchFault(batch: readonly unknown[], isMessage: (value: unknown) => boolean): string | undefined {
  if (batch.length === 0) return 'The batch is empty.'
  if (batch.length > mostInBatch) return 'The batch is too long.'
  if (!batch.every(isMessage)) return 'The batch holds something that is no message of JSON-RPC 2.0.'
  if (batch.some(isModern)) return 'The revision 2026-07-28 has no batch.'
  return batch.some(isOpening) ? 'A session is not opened in a batch.' : undefined
}

function isOpening(message: unknown): boolean {
  return (message as { readonly method?: unknown }).method === 'initialize'
}

function isModern(message: unknown): boolean {
  const { params } = message as { readonly params?: { readonly _meta?: { readonly [name: string]: unknown } } }
  return params?._meta?.[versionMeta] !== undefined
}

/** Whether a value that is no message tells or answers something all the same: to answer it in turn could go on for ever. */
function isUnanswered(value: unknown): boolean {
  if (isAnswer(value)) return true
  const { jsonrpc, method } = (value ?? {}) as { readonly jsonrpc?: unknown; readonly method?: unknown }
  return jsonrpc === '2.0' && typeof method === 'string' && !('id' in (value as object))
}

/** What the SDK takes for a message, in the form that `readLine` asks for. */
export function messageCheck(sdk: McpSdk): (value: unknown) => boolean {
  const { isJSONRPCRequest, isJSONRPCNotification, isJSONRPCResultResponse, isJSONRPCErrorResponse } = sdk
  const checks = [isJSONRPCRequest, isJSONRPCNotification, isJSONRPCResultResponse, isJSONRPCErrorResponse]
  return (value) => checks.some((check) => check(value))
}
