import { TextDecoder } from 'node:util'
import type { EgressResponse } from '../../egress/egress.ts'
import { createRedactor } from '../../json/redact.ts'

/** The media type of an answer, in small letters, and the charset it names. */
export interface Media {
  readonly type: string | undefined
  readonly charset: string | undefined
}

const plainJson: Media = { type: 'application/json', charset: undefined }

export function mediaOf({ contentType = '' }: Pick<EgressResponse, 'contentType'>): Media {
  if (contentType === 'application/json') return plainJson
  const [type = '', ...parameters] = contentType.slice(0, 1_000).split(';')
  const charset = parameters.map((one) => /^\s*charset\s*=\s*"?([^"\s]+)"?\s*$/i.exec(one)?.[1]).find((one) => one)
  return { type: type.trim().toLowerCase() || undefined, charset }
}

export function isJson(type: string | undefined): boolean {
  if (type === plainJson.type) return true
  return type !== undefined && /^[^/]+\/(?:json|.*\+json)$/.test(type)
}

const lines: ReadonlySet<string> = new Set([
  ...['application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/x-jsonl'],
  ...['application/jsonlines', 'application/x-jsonlines', 'application/json-lines'],
])

export function isJsonLines(type: string | undefined): boolean {
  return type !== undefined && lines.has(type)
}

/** Types that people read, though their first half does not say so. */
const readable =
  /^(?:text\/.+|application\/(?:xml|.+\+xml|yaml|x-yaml|.+\+yaml|javascript|x-javascript|graphql|toml|sql|x-www-form-urlencoded))$/

export function isText(type: string | undefined): boolean {
  return type !== undefined && readable.test(type)
}

/** Text in the charset that the answer names; one that nobody knows is taken for UTF-8, and bad bytes are replaced. */
export function decodeText(bytes: Uint8Array, charset: string | undefined): string {
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) return decoderFor(charset).decode(bytes)
  // The quick way for nearly every answer; it replaces bad bytes too, but keeps the mark that may stand first.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

export function decoderFor(charset: string | undefined): TextDecoder {
  try {
    return new TextDecoder(charset ?? 'utf-8')
  } catch {
    return new TextDecoder()
  }
}

/** A short piece of what a server sent, as it may stand in an error; `whole` is false for a text that was cut already. */
export type Excerpt = (text: string, limit: number, whole?: boolean) => string

/**
 * Makes excerpts for one call. The secrets of the request are taken out before the cut, because a server may send them
 * back and half of one would be found by nobody later; then everything that could move a cursor or a reader is escaped.
 */
export function createExcerpt(secrets: readonly string[]): Excerpt {
  return (text, limit, complete = true) => {
    const redactor = createRedactor({ values: secrets, keys: false })
    // The end of what is not the whole text may be half a secret, and is not shown.
    const piece = text.slice(0, limit * 4 + redactor.reach)
    const pieces = redactor.pieces()
    const whole = complete && piece.length === text.length
    const shown = pieces.push(piece) + (whole ? pieces.end() : '')
    const escaped = shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escapeCharacter)
    return whole && escaped.length <= limit ? escaped : `${escaped.slice(0, limit - 1)}…`
  }
}

function escapeCharacter(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}
