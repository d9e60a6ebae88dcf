import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { EgressResponse } from '../../egress/egress.ts'
import { parseAnswer } from '../../json/parse.ts'
import type { Plan } from './binding.ts'
import { createEventReader, createLineReader } from './event-stream.ts'
import { decoderFor, decodeText, type Excerpt, isJson, isJsonLines, isText, mediaOf } from './media.ts'

/** How an answer is read. */
type Reading = Exclude<Plan['response'], 'auto'> | 'content' | 'guess'
/** Readings that give chunks while the answer comes. */
export type Streaming = 'sse' | 'ndjson' | 'chunks'

/** How an answer is read: as the binding says, else by its media type. */
export function readingOf(asked: Plan['response'], response: EgressResponse): Reading {
  if (asked !== 'auto') return asked
  const { type } = mediaOf(response)
  if (type === undefined) return 'guess'
  if (type === 'text/event-stream') return 'sse'
  if (isJson(type)) return 'json'
  if (isJsonLines(type)) return 'ndjson'
  return isText(type) ? 'text' : 'content'
}

export function isStreaming(reading: Reading): reading is Streaming {
  return reading === 'sse' || reading === 'ndjson' || reading === 'chunks'
}

/** The output of an answer whose bytes are all there; of none it is null. */
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

/** Parses what a server calls JSON; throws BACKEND_FAILED with its beginning when it is not. */
function jsonOf(text: string, excerpt: Excerpt): Json {
  try {
    return parseAnswer(text)
  } catch (error) {
    if (error instanceof RangeError) {
      throw new ToolError('RESULT_TOO_LARGE', 'The answer is JSON that is too deep.', { cause: error })
    }
    // The parser's own words quote the text, secrets and all; the excerpt is the part that may be shown.
    const message = `The answer is not the JSON it should be: ${excerpt(text, 200)}`
    throw new ToolError('BACKEND_FAILED', message, { cause: new Error('The text is not JSON.') })
  }
}

/** The text when the bytes are UTF-8. */
function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** A result as MCP has it, for what is neither JSON nor text; without the query, which may hold a secret. */
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

/** Reads an answer as it comes; whoever stops early lets go of the connection. */
export function readStream(reading: Streaming, response: EgressResponse, excerpt: Excerpt): Chunks {
  return readers[reading](response, excerpt)
}

const readers: { readonly [reading in Streaming]: (response: EgressResponse, excerpt: Excerpt) => Chunks } = {
  sse: events,
  ndjson: values,
  chunks: (response) => pieces(response, mediaOf(response).charset),
}

/** The text of the body, piece by piece; its output is all of it, which the pipeline joins. */
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
 * Events as `{ event, data, id? }`. There may be any number, so the output is not all of them but the last data that
 * was JSON, as services that count up to a result send it; without any, how many events there were.
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

/** JSON when the text is; undefined when it is not. */
function parsed(text: string): Json | undefined {
  try {
    return parseAnswer(text)
  } catch {
    return undefined
  }
}

/** One JSON value a line; the output is the list of them. */
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
