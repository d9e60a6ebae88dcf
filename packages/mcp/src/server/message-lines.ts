import { Transform } from 'node:stream'
import { JsonError } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import type { McpSdk } from './sdk.ts'

/** How long one message over stdio may be. */
export const mostLineBytes = 16 * 1_048_576
/** What the SDK may hold of it: more, because a number that a batch writes short is longer when it goes on alone. */
export const mostBufferBytes = 2 * mostLineBytes

interface MessageLinesOptions extends Pick<ReadLineOptions, 'isMessage'> {
  /** Answers a line, or one message of it, that goes no further. */
  readonly refuse: (answer: RefusedJson) => void
  readonly most?: number
}

const newline = 0x0a

/**
 * Lets through the lines that hold messages as the endpoint of the service takes them; those of a batch go on one by one.
 * Every other line is answered by `refuse` and goes no further, because the SDK would pass it over in silence. Of a line
 * longer than `most` bytes nothing is kept, and the next one is read.
 */
export function messageLines({ refuse, isMessage, most = mostLineBytes }: MessageLinesOptions): Transform {
  let pieces: Buffer[] = []
  let length = 0
  const add = (piece: Buffer): void => {
    const told = length > most
    length += piece.length
    if (length <= most) pieces.push(piece)
    else if (!told) {
      pieces = []
      refuse(refusedMessage(null, `The message is longer than ${most} bytes.`))
    }
  }
  /** The line that has come to its end, unless it was too long. */
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
  /** Whether a value is a message as the SDK takes it. */
  readonly isMessage: (value: unknown) => boolean
  readonly most: number
}

/** What a line holds: messages, each as a line of its own, or what is answered because it goes no further. */
type ReadLine =
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

/** Reads a line with its end. A notification or a response is never refused for its form, because neither is answered. */
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

/** Whether an invalid message is a notification or a response all the same; answering it could loop for ever. */
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

type Id = string | number

export interface RefusedJson {
  readonly jsonrpc: '2.0'
  readonly id: Id | null
  readonly error: { readonly code: number; readonly message: string }
}

/**
 * The answer to a text that was not taken: under the id of its request where one can be read, so that nobody waits for
 * ever for what was refused.
 */
export function refusedJson(text: string, reason: string): RefusedJson {
  const id = requestIdIn(text)
  if (id !== null) return refusedMessage(id, reason)
  return { jsonrpc: '2.0', id, error: { code: -32_700, message: `Parse error: ${reason}` } }
}

/** The answer to what is JSON and no message that can be taken. */
function refusedMessage(id: Id | null, reason: string): RefusedJson {
  return { jsonrpc: '2.0', id, error: { code: -32_600, message: reason } }
}

/** The id under which a value is answered: null where it has none, or is an answer, whose id is one of ours. */
function requestIdOf(value: unknown): Id | null {
  const { id } = (value ?? {}) as { readonly id?: unknown }
  const good = typeof id === 'string' || Number.isSafeInteger(id)
  return good && !isAnswer(value) ? (id as Id) : null
}

/** Whether a value looks like an answer to a request of ours, which is never answered itself. */
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

/** A JSON text without what its members hold, because to build all that was refused for its size would cost too much. */
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
