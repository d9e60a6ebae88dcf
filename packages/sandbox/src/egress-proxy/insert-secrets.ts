import type { CredentialLocation } from '@gantry/core/internal/runtimes/runtime'
import type { Standing } from './placeholder.ts'

type HeaderTexts = { readonly [name: string]: string }

/** Puts secrets into the headers of a request, where their placeholders stand, also within basic credentials. */
export function putIntoHeaders(headers: HeaderTexts, standing: readonly Standing[]): HeaderTexts {
  const inHeaders = placed(standing, 'header')
  if (inHeaders.length === 0) return headers
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, inHeader(value, inHeaders)]))
}

/** A part of a file could hold a part of a secret, which nobody would know again; a server may answer with all of it. */
export function withoutRange({ range: _range, 'if-range': _unless, ...rest }: HeaderTexts): HeaderTexts {
  return rest
}

/** Puts secrets into the query of a URL, as a query is written. */
export function putIntoQuery(url: URL, standing: readonly Standing[]): URL {
  const inQuery = placed(standing, 'query').filter(({ placeholder }) => url.search.includes(placeholder))
  if (inQuery.length === 0) return url
  const filled = new URL(url)
  for (const { placeholder, secret } of inQuery) {
    filled.search = filled.search.replaceAll(placeholder, () => percented(secret))
  }
  return filled
}

/** Puts secrets into a body, piece by piece, written as its media type has it; a body that is encoded stays as it is. */
export function putIntoBody(
  pieces: AsyncIterable<Uint8Array>,
  headers: HeaderTexts,
  standing: readonly Standing[],
): AsyncIterable<Uint8Array> {
  const inBody = placed(standing, 'body')
  if (inBody.length === 0 || (headers['content-encoding'] ?? 'identity') !== 'identity') return pieces
  const written = writerOf(headers['content-type'] ?? '')
  return inBody.reduce((source, { placeholder, secret }) => replaced(source, placeholder, written(secret)), pieces)
}

function placed(standing: readonly Standing[], place: CredentialLocation): readonly Standing[] {
  return standing.filter(({ places }) => places.has(place))
}

function inHeader(value: string, standing: readonly Standing[]): string {
  const [, scheme, coded = ''] = /^(basic +)([A-Za-z0-9+/]+={0,2})$/i.exec(value) ?? []
  if (scheme === undefined) return filled(value, standing)
  const plain = Buffer.from(coded, 'base64').toString('latin1')
  const whole = filled(plain, standing)
  return whole === plain ? value : `${scheme}${Buffer.from(whole, 'latin1').toString('base64')}`
}

function filled(text: string, standing: readonly Standing[]): string {
  return standing.reduce((done, { placeholder, secret }) => done.replaceAll(placeholder, () => secret), text)
}

function writerOf(mediaType: string): (secret: string) => string {
  if (/^application\/x-www-form-urlencoded\b/i.test(mediaType)) return percented
  if (/^application\/(?:[\w.-]+\+)?json\b/i.test(mediaType)) return (secret) => JSON.stringify(secret).slice(1, -1)
  return (secret) => secret
}

/** Of bytes that stand as one character each. */
function percented(secret: string): string {
  return encodeURIComponent(Buffer.from(secret, 'latin1').toString()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** Replaces a text in a stream of bytes, also where it is divided between two pieces. */
async function* replaced(
  source: AsyncIterable<Uint8Array>,
  from: string,
  to: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let held = ''
  for await (const piece of source) {
    const text = (held + Buffer.from(piece).toString('latin1')).replaceAll(from, () => to)
    const kept = beginningAtEnd(text, from)
    held = text.slice(text.length - kept)
    if (text.length > kept) yield Buffer.from(text.slice(0, text.length - kept), 'latin1')
  }
  if (held !== '') yield Buffer.from(held, 'latin1')
}

/** How many characters at the end of a text are a beginning of another. */
function beginningAtEnd(text: string, whole: string): number {
  for (let length = Math.min(whole.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(whole.slice(0, length))) return length
  }
  return 0
}
