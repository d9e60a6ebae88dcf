import { TextDecoder } from 'node:util'
import type { EgressResponse } from '../../egress/egress.ts'
import { createRedactor } from '../../json/redact.ts'

/** The media type of a response in lower case, and its charset. */
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
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonl',
  'application/jsonlines',
  'application/x-jsonlines',
  'application/json-lines',
])

export function isJsonLines(type: string | undefined): boolean {
  return type !== undefined && lines.has(type)
}

/** Text types outside `text/`. */
const readable =
  /^(?:text\/.+|application\/(?:xml|.+\+xml|yaml|x-yaml|.+\+yaml|javascript|x-javascript|graphql|toml|sql|x-www-form-urlencoded))$/

export function isTextMedia(type: string | undefined): boolean {
  return type !== undefined && readable.test(type)
}

/** Decodes text in the charset of the response; an unknown charset counts as UTF-8, and invalid bytes are replaced. */
export function decodeText(bytes: Uint8Array, charset: string | undefined): string {
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) return decoderFor(charset).decode(bytes)
  // The fast path for UTF-8; it replaces invalid bytes too, but keeps a BOM.
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

/** A short, redacted excerpt of a response for an error; `whole` is false for a text that is already truncated. */
export type Excerpt = (text: string, limit: number, whole?: boolean) => string

/**
 * Creates excerpts for one call. The secrets of the request are redacted before truncation, because a server may echo
 * them and half a secret would not be found later; then control and invisible characters are escaped.
 */
export function createExcerpt(secrets: readonly string[]): Excerpt {
  return (text, limit, complete = true) => {
    const redactor = createRedactor({ values: secrets, keys: false })
    // The end of a truncated text may be half a secret and is not shown.
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
