import { Transform } from 'node:stream'
import { isObject } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { JsonError } from '@gantry/core/internal/json/plain'
import type { McpSdk } from './sdk.ts'

/** The size limit of one message over stdio. */
export const mostLineBytes = 16 * 1_048_576
/** The size limit of the SDK: larger, because a number in short notation may grow when a batch is split. */
export const mostBufferBytes = 2 * mostLineBytes

interface MessageLinesOptions extends Pick<ReadLineOptions, 'isMessage'> {
  /** Responds to a refused line, or to one refused message of it. */
  readonly refuse: (answer: RefusedJson) => void
  readonly most?: number
}

const newline = 0x0a

/**
 * Passes on lines with messages that the endpoint of the service accepts; messages of a batch are passed on one by one.
 * Every other line is answered by `refuse` and dropped, because the SDK would ignore it silently. A line longer than
 * `most` bytes is discarded, and reading continues with the next one.
 */
export function messageLines({ refuse, isMessage, most = mostLineBytes }: MessageLinesOptions): Transform {
  let pieces: Buffer[] = []
  let length = 0
  const add = (piece: Buffer): void => {
    const wasReported = length > most
    length += piece.length
    if (length <= most) pieces.push(piece)
    else if (!wasReported) {
      pieces = []
      refuse(refusedMessage(null, `The message is longer than ${most} bytes.`))
    }
  }
  /** The completed line, unless it was too long. */
  const finish = (): Buffer | undefined => {
    const line = length > most ? undefined : Buffer.concat(pieces)
    ;[pieces, length] = [[], 0]
    return line
  }
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let from = 0
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, end + 1))
        from = end + 1
        const line = finish()
        if (line === undefined) continue
        const read = readLine(line, { isMessage, most })
        if (read.kind === 'refused') read.answers.forEach(refuse)
        else for (const one of read.lines) this.push(one)
      }
      add(chunk.subarray(from))
      done()
    },
  })
}

interface ReadLineOptions {
  /** Whether the SDK accepts a value as a message. */
  readonly isMessage: (value: unknown) => boolean
  readonly most: number
}

/** The content of a line: messages, each as its own line, or the responses to a refused line. */
type ReadLine =
  | { readonly kind: 'taken'; readonly lines: readonly (Buffer | string)[] }
  | { readonly kind: 'refused'; readonly answers: readonly RefusedJson[] }

/** Only one revision, of 2025-03-26, has batches at all. */
export const mostInBatch = 50

/** The depth limit of an HTTP body: arguments may be 64 levels deep, a few levels below the message. */
const messageDepth = 72
const messageNodes = 100_000
const versionMeta = 'io.modelcontextprotocol/protocolVersion'
const noMessage =
  'Invalid JSON-RPC 2.0 message: it needs jsonrpc "2.0", a method, params that are an object if there are any, ' +
  'and, to be answered, an id that is a text or a whole number.'

/** Parses a complete line. An invalid notification or response is dropped silently, because neither has a response. */
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

/** Accepts or refuses a batch as a whole, like the endpoint of the service; a refusal is sent for each of its ids. */
function readBatch(batch: readonly unknown[], isMessage: (value: unknown) => boolean): ReadLine {
  const reason = batchFault(batch, isMessage)
  if (reason === undefined) return { kind: 'taken', lines: batch.map((one) => `${JSON.stringify(one)}\n`) }
  const ids = batch.map(requestIdOf).filter((id) => id !== null)
  return { kind: 'refused', answers: (ids.length === 0 ? [null] : ids).map((id) => refusedMessage(id, reason)) }
}

function batchFault(batch: readonly unknown[], isMessage: (value: unknown) => boolean): string | undefined {
  if (batch.length === 0) return 'The batch is empty.'
  if (batch.length > mostInBatch) return 'The batch is too long.'
  if (!batch.every(isMessage)) return 'The batch contains a value that is not a JSON-RPC 2.0 message.'
  if (batch.some(isModern)) return 'Revision 2026-07-28 does not support batches.'
  return batch.some(isOpening) ? 'A session is not opened in a batch.' : undefined
}

function isOpening(message: unknown): boolean {
  return isObject(message) && message.method === 'initialize'
}

function isModern(message: unknown): boolean {
  const params = isObject(message) ? message.params : undefined
  const meta = isObject(params) ? params._meta : undefined
  return isObject(meta) && meta[versionMeta] !== undefined
}

/** Whether an invalid message is a notification or a response; answering one could loop forever. */
function isUnanswered(value: unknown): boolean {
  if (isAnswer(value)) return true
  return isObject(value) && value.jsonrpc === '2.0' && typeof value.method === 'string' && !('id' in value)
}

/** The SDK's check of a message, in the form that `readLine` needs. */
export function messageCheck(sdk: McpSdk): (value: unknown) => boolean {
  const { isJSONRPCRequest, isJSONRPCNotification, isJSONRPCResultResponse, isJSONRPCErrorResponse } = sdk
  const checks = [isJSONRPCRequest, isJSONRPCNotification, isJSONRPCResultResponse, isJSONRPCErrorResponse]
  return (value) => checks.some((check) => check(value))
}

type Id = string | number

export interface RefusedJson {
  readonly jsonrpc: '2.0'
  readonly id: Id | null
  readonly error: { readonly code: number; readonly message: string }
}

/**
 * The response to a refused text: with the id of its request where one can be parsed, so that no client waits forever.
 */
export function refusedJson(text: string, reason: string): RefusedJson {
  const id = requestIdIn(text)
  if (id !== null) return refusedMessage(id, reason)
  return { jsonrpc: '2.0', id, error: { code: -32_700, message: `Parse error: ${reason}` } }
}

/** The response to JSON that is not an acceptable message. */
function refusedMessage(id: Id | null, reason: string): RefusedJson {
  return { jsonrpc: '2.0', id, error: { code: -32_600, message: reason } }
}

/** The id of the response to a value: null when it has none, or when it is itself a response to one of our requests. */
function requestIdOf(value: unknown): Id | null {
  if (!isObject(value) || isAnswer(value)) return null
  const { id } = value
  return typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id)) ? id : null
}

/** Whether a value looks like a response to one of our requests, which is never answered. */
function isAnswer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return !('method' in value) && ('result' in value || 'error' in value)
}

function requestIdIn(text: string): Id | null {
  try {
    return requestIdOf(JSON.parse(shallow(text)))
  } catch {
    return null
  }
}

/** A JSON text without its nested values, because building an oversized value would cost too much. */
function shallow(text: string): string {
  let kept = ''
  let [depth, from] = [0, 0]
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '"') at = stringEnd(text, at)
    else if (character === '{' || character === '[') {
      depth += 1
      if (depth === 2) kept += text.slice(from, at + 1)
    } else if (character === '}' || character === ']') {
      if (depth === 2) from = at
      depth -= 1
    }
  }
  return kept + text.slice(from)
}

function stringEnd(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
