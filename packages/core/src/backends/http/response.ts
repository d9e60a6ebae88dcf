import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { EgressResponse } from '../../egress/egress.ts'
import { parseAnswer } from '../../json/parse.ts'
import type { Plan } from './binding.ts'
import { decoderFor, decodeText, type Excerpt, isJson, isJsonLines, isTextMedia, mediaOf } from './media.ts'

/** The decoder of a response. */
type Reading = Exclude<Plan['response'], 'auto'> | 'content' | 'guess'
/** Decoders that emit chunks while the response arrives. */
export type Streaming = 'sse' | 'ndjson' | 'chunks'

/** The decoder of a response: that of the binding, else by its media type. */
export function readingOf(asked: Plan['response'], response: EgressResponse): Reading {
  if (asked !== 'auto') return asked
  const { type } = mediaOf(response)
  if (type === undefined) return 'guess'
  if (type === 'text/event-stream') return 'sse'
  if (isJson(type)) return 'json'
  if (isJsonLines(type)) return 'ndjson'
  return isTextMedia(type) ? 'text' : 'content'
}

export function isStreaming(reading: Reading): reading is Streaming {
  return reading === 'sse' || reading === 'ndjson' || reading === 'chunks'
}

/** The output of a complete response; null for an empty body. */
export function readWhole(
  reading: Exclude<Reading, Streaming>,
  response: EgressResponse,
  bytes: Uint8Array,
  excerpt: Excerpt,
): Json {
  const { type, charset } = mediaOf(response)
  if (bytes.byteLength === 0) return null
  if (reading === 'json') return jsonOf(decodeText(bytes, charset), excerpt)
  if (reading === 'text') return decodeText(bytes, charset)
  if (reading === 'base64') return base64(bytes)
  if (reading === 'guess') return utf8(bytes) ?? content(bytes, 'application/octet-stream', response.url)
  return content(bytes, type ?? 'application/octet-stream', response.url)
}

/** Parses a JSON response; throws BACKEND_FAILED with an excerpt when it is invalid. */
function jsonOf(text: string, excerpt: Excerpt): Json {
  try {
    return parseAnswer(text)
  } catch (error) {
    if (error instanceof RangeError) {
      throw new ToolError('RESULT_TOO_LARGE', 'The response is JSON that is nested too deeply.', { cause: error })
    }
    // The message of the parser quotes the text with its secrets; the excerpt is redacted.
    const message = `The response is not valid JSON: ${excerpt(text, 200)}`
    throw new ToolError('BACKEND_FAILED', message, { cause: new Error('The text is not JSON.') })
  }
}

/** The bytes as text; undefined when they are not UTF-8. */
function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** MCP content for a response that is neither JSON nor text; the URI omits the query, which may hold a secret. */
function content(bytes: Uint8Array, mimeType: string, from: string): JsonObject {
  const data = base64(bytes)
  const [kind] = mimeType.split('/')
  if (kind === 'image' || kind === 'audio') return { content: [{ type: kind, data, mimeType }] }
  const { origin, pathname } = new URL(from)
  return { content: [{ type: 'resource', resource: { uri: `${origin}${pathname}`, mimeType, blob: data } }] }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

type Chunks = AsyncGenerator<Json, Json | undefined, void>

/** Decodes a response as it arrives; the connection closes when the reader stops early. */
export function readStream(reading: Streaming, response: EgressResponse, excerpt: Excerpt): Chunks {
  return readers[reading](response, excerpt)
}

const readers: { readonly [reading in Streaming]: (response: EgressResponse, excerpt: Excerpt) => Chunks } = {
  sse: events,
  ndjson: values,
  chunks: (response) => pieces(response, mediaOf(response).charset),
}

/** The text of the body in pieces; the pipeline joins them into the output. */
async function* pieces(response: EgressResponse, charset?: string): AsyncGenerator<string, undefined, void> {
  const decoder = decoderFor(charset)
  for await (const bytes of response.body) {
    const piece = decoder.decode(bytes, { stream: true })
    if (piece !== '') yield piece
  }
  const rest = decoder.decode()
  if (rest !== '') yield rest
}

/**
 * Events as `{ event, data, id? }`. Their number is unbounded, so the output is the last JSON data, as services that stream
 * progress up to a result send it; without JSON data it is the number of events.
 */
async function* events(response: EgressResponse): Chunks {
  const reader = createEventReader()
  let count = 0
  let last: Json | undefined
  for await (const piece of pieces(response)) {
    for (const { event, data, id } of reader.push(piece)) {
      const value = parsed(data)
      count += 1
      if (value !== undefined) last = value
      const chunk: JsonObject = { event, data: value === undefined ? data : value }
      yield id === '' ? chunk : { ...chunk, id }
    }
  }
  return last === undefined ? { events: count } : last
}

/** The parsed JSON; undefined when the text is not JSON. */
function parsed(text: string): Json | undefined {
  try {
    return parseAnswer(text)
  } catch {
    return undefined
  }
}

/** One JSON value per line; the output is the list of values. */
async function* values(response: EgressResponse, excerpt: Excerpt): Chunks {
  const reader = createLineReader()
  const list: Json[] = []
  const read = (lines: readonly string[]): Json[] =>
    lines.filter((line) => line.trim() !== '').map((line) => jsonOf(line, excerpt))
  for await (const piece of pieces(response)) {
    for (const value of read(reader.push(piece))) {
      list.push(value)
      yield value
    }
  }
  for (const value of read([reader.end() ?? ''])) {
    list.push(value)
    yield value
  }
  return list
}

/** Most characters of a line or an event; a longer one fails the stream. */
const longestPiece = 1_048_576

/** Splits a streamed text into lines. */
interface LineReader {
  /** The lines that this piece completes. */
  push(piece: string): string[]
  /** The last line, when it has no line end. */
  end(): string | undefined
}

/** Lines end with CR, LF or both, wherever the pieces are split; a buffered incomplete line is scanned only once. */
export function createLineReader(limit: number = longestPiece): LineReader {
  let kept: string[] = []
  let size = 0
  let afterReturn = false
  const keep = (part: string): void => {
    size += part.length
    if (size > limit) throw tooLong(limit)
    if (part !== '') kept.push(part)
  }
  const take = (): string => {
    const line = kept.join('')
    kept = []
    size = 0
    return line
  }
  return {
    push(piece) {
      if (piece === '') return []
      const lines: string[] = []
      let from = afterReturn && piece.startsWith('\n') ? 1 : 0
      afterReturn = piece.endsWith('\r')
      const ends = /\r\n|\r|\n/g
      ends.lastIndex = from
      for (let end = ends.exec(piece); end !== null; end = ends.exec(piece)) {
        keep(piece.slice(from, end.index))
        lines.push(take())
        from = ends.lastIndex
      }
      keep(piece.slice(from))
      return lines
    },
    end: () => (size === 0 ? undefined : take()),
  }
}

function tooLong(limit: number): ToolError {
  return new ToolError('RESULT_TOO_LARGE', `The stream has a line or an event of more than ${limit} characters.`)
}

/** One server-sent event. */
export interface ServerEvent {
  /** `message` unless the server named it. */
  readonly event: string
  readonly data: string
  /** The last event id, of this event or an earlier one. */
  readonly id: string
}

/**
 * Parses server-sent events as in the HTML standard, from streamed text without a BOM.
 * An empty line dispatches the event when it has data; an incomplete event at the end is dropped. `retry` is ignored,
 * because a call does not reconnect.
 */
export function createEventReader(limit: number = longestPiece): { push(piece: string): ServerEvent[] } {
  const lines = createLineReader(limit)
  let event = ''
  let data: string[] = []
  let size = 0
  let id = ''

  const field = (line: string): void => {
    const colon = line.indexOf(':')
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'event') event = value
    else if (name === 'id' && !value.includes('\0')) id = value
    else if (name === 'data') {
      size += value.length + 1
      if (size > limit) throw tooLong(limit)
      data.push(value)
    }
  }
  const dispatch = (): ServerEvent[] => {
    const found = data.length === 0 ? [] : [{ event: event || 'message', data: data.join('\n'), id }]
    event = ''
    data = []
    size = 0
    return found
  }
  return {
    push: (piece) =>
      lines.push(piece).flatMap((line) => {
        if (line === '') return dispatch()
        field(line)
        return []
      }),
  }
}
