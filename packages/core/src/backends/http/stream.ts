import type { Json, JsonObject } from '@gantry/contract'
import type { EgressResponse } from '../../egress/egress.ts'
import { parseAnswer } from '../../json/parse-answer.ts'
import type { Excerpt } from './excerpt.ts'
import { createLineReader } from './lines.ts'
import { decoderFor, mediaOf } from './media.ts'
import { jsonOf, type Streaming } from './response.ts'
import { createEventReader } from './sse.ts'

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
