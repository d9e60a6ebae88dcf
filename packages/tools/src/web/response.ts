import { isUtf8 } from 'node:buffer'
import type { Json, JsonObject } from '@gantry/contract'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import {
  decoderFor,
  decodeText,
  isJson,
  isJsonLines,
  isTextMedia,
  type Media,
} from '@gantry/core/internal/backends/http/media'
import type { EgressResponse } from '@gantry/core/internal/egress/egress'
import { parseAnswer } from '@gantry/core/internal/json/parse'
import { createRedactor, type Redactor } from '@gantry/core/internal/json/redact'
import { htmlText } from './html-text.ts'
import type { Shown } from './request.ts'

/** Binary bodies of this size or more become an artifact, if there is a store. */
const inlineBytes = 65_536

/**
 * The output of a fetch: what every answer has, then its body in the form that was asked for. What is hidden is taken
 * out of bytes before they become base64, where not every form of it would be found.
 */
export async function answerOf(
  response: EgressResponse,
  media: Media,
  read: Read,
  as: Shown,
  hidden: Redactor,
  context: BackendContext,
): Promise<JsonObject> {
  const { status, url } = response
  return {
    status,
    url,
    headers: headersOf(response.headers),
    bytes: read.bytes.byteLength,
    ...(read.truncated ? { truncated: true } : {}),
    ...(await bodyOf(response, media, read.bytes, as, hidden, context)),
  }
}

/** By the media type unless the call names a form; invalid JSON is shown as text, so that it is not lost. */
async function bodyOf(
  { url }: EgressResponse,
  { type, charset }: Media,
  bytes: Uint8Array,
  as: Shown,
  hidden: Redactor,
  context: BackendContext,
): Promise<JsonObject> {
  const textual = isTextual(type, bytes)
  if (as === 'base64') return { base64: base64(bytes, hidden) }
  if (as === 'artifact' || (!textual && as === 'auto')) return fileOf(url, type, bytes, as, hidden, context)
  const text = decodeText(bytes, charset)
  if (as === 'json' || (as === 'auto' && isJson(type))) {
    const json = parsed(text)
    return json === undefined ? { body: text } : { json }
  }
  if (as === 'html' || !isHtml(type)) return { body: text }
  // A long title is truncated, and redaction would not find a partial secret later.
  const { title, text: body } = await htmlText(hidden.text(text), url, context.signal)
  return title === undefined ? { body } : { title, body }
}

/** Bytes that may be large: as a file where the host keeps files, else in the output. */
async function fileOf(
  url: string,
  type: string | undefined,
  bytes: Uint8Array,
  as: Shown,
  hidden: Redactor,
  context: BackendContext,
): Promise<JsonObject> {
  if (as === 'auto' && (!context.keepsFiles || bytes.byteLength <= inlineBytes)) {
    return { base64: base64(bytes, hidden) }
  }
  const name = decodeName(new URL(url).pathname.split('/').at(-1) ?? '')
  const file = { name, content: bytes, ...(type === undefined ? {} : { mimeType: type }) }
  return { artifact: { ...(await context.attach(file)) } }
}

function decodeName(segment: string): string {
  try {
    return decodeURIComponent(segment) || 'answer'
  } catch {
    return segment
  }
}

/** An answer that names no type is text when it could be. */
function isTextual(type: string | undefined, bytes: Uint8Array): boolean {
  return type === undefined ? isUtf8(bytes) : isJson(type) || isJsonLines(type) || isTextMedia(type)
}

export function isHtml(type: string | undefined): boolean {
  return type === 'text/html' || type === 'application/xhtml+xml'
}

function parsed(text: string): Json | undefined {
  try {
    return parseAnswer(text)
  } catch {
    return undefined
  }
}

/** Headers by name; a repeated name, such as a cookie, has all values. */
function headersOf(headers: Headers): JsonObject {
  const all = new Map<string, Json>(headers)
  const cookies = headers.getSetCookie()
  if (cookies.length > 0) all.set('set-cookie', cookies)
  return Object.fromEntries(all)
}

function base64(bytes: Uint8Array, hidden: Redactor): string {
  const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (hidden.reach === 0) return given.toString('base64')
  return Buffer.from(hidden.text(given.toString('latin1')), 'latin1').toString('base64')
}

/** The part of a body that was read. */
interface Read {
  readonly bytes: Uint8Array
  /** Whether there was more. */
  readonly truncated: boolean
}

/** The size limit of a body, and the secrets that truncation must not split. */
interface Extent {
  readonly limit: number
  /** Of the secrets that the request carried, each byte of theirs and of the body as one character. */
  readonly hidden: Redactor
}

/** For secrets as they are, and as their bytes in UTF-8 are read one by one. */
export function extentOf(limit: number, secrets: readonly string[]): Extent {
  const values = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString('latin1')])
  return { limit, hidden: createRedactor({ values, keys: false }) }
}

/**
 * Reads a body up to a limit and cancels the rest; each piece that counts is yielded.
 *
 * Redaction would not find half a secret later. So the last bytes before the limit, as many as a secret is long, are
 * held back until every secret that began before the limit is complete, for which a little more is read; the result
 * then ends before a secret that crosses the limit. How much more is read never depends on the content: otherwise a
 * caller could try beginnings of a secret until one is held back, or waited for.
 */
export async function* readPieces(
  response: EgressResponse,
  { limit, hidden }: Extent,
): AsyncGenerator<Uint8Array, Read, void> {
  const given: Uint8Array[] = []
  let atOnce = Math.max(0, limit - hidden.reach)
  const room = limit - atOnce
  const waiting: Uint8Array[] = []
  let waits = 0
  let left = limit + hidden.reach
  let more = false
  let due = room
  for await (const piece of response.body) {
    const part = piece.subarray(0, left)
    const now = part.subarray(0, atOnce)
    left -= part.byteLength
    atOnce -= now.byteLength
    if (now.byteLength > 0) {
      given.push(now)
      yield now
    }
    waiting.push(part.subarray(now.byteLength))
    waits += part.byteLength - now.byteLength
    more = part.byteLength < piece.byteLength
    if (!more && waits > due) {
      more = hidden.settled(Buffer.concat(waiting).toString('latin1')) >= room
      // A server that sends byte by byte must not have all of it searched for each of them.
      due = waits * 1.25
    }
    if (more) break
  }
  if (more) response.cancel()
  const truncated = more || waits > room
  const rest = Buffer.concat(waiting)
  const last = truncated ? rest.subarray(0, hidden.cut(rest.toString('latin1'), room)) : rest
  if (last.byteLength > 0) {
    given.push(last)
    yield last
  }
  return { bytes: Buffer.concat(given), truncated }
}

/** The same without yielding the pieces. */
export async function readAll(response: EgressResponse, extent: Extent): Promise<Read> {
  const pieces = readPieces(response, extent)
  for (;;) {
    const step = await pieces.next()
    if (step.done === true) return step.value
  }
}

/** The same, with the text in chunks, split between characters. */
export async function* readText(
  response: EgressResponse,
  extent: Extent,
  charset: string | undefined,
): AsyncGenerator<string, Read, void> {
  const decoder = decoderFor(charset)
  const pieces = readPieces(response, extent)
  for (;;) {
    const step = await pieces.next()
    if (step.done === true) return step.value
    const text = decoder.decode(step.value, { stream: true })
    if (text !== '') yield text
  }
}
