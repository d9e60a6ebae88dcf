import { randomBytes } from 'node:crypto'
import { createRedactor, type Redactor } from '@gantry/core/internal/json/redact'
import type { Credential, CredentialLocation } from '@gantry/core/internal/runtimes/runtime'
import { type AllowedOrigin, type Authority, isListed, parseAllow } from './origins.ts'

/** A credential in one sandbox. */
export interface BrokeredSecret {
  readonly variable: string
  readonly placeholder: string
  /** The UTF-8 bytes of the secret, one character per byte, as sent on the wire. */
  readonly secret: string
  readonly places: ReadonlySet<CredentialLocation>
  readonly origins: readonly AllowedOrigin[]
  /** Replaces the secret with its placeholder, in every encoding in which a server may send it. */
  readonly redactor: Redactor
}

/** Creates an unguessable placeholder for a credential, unique to this sandbox. */
export function createBrokeredSecret({ variable, value, hosts, in: places = ['header'] }: Credential): BrokeredSecret {
  const placeholder = `gantry-placeholder-${randomBytes(16).toString('hex')}`
  const secret = Buffer.from(value()).toString('latin1')
  // Servers that decode header bytes as latin1 send them back as UTF-8.
  const values = [...new Set([secret, value(), Buffer.from(secret).toString('latin1')])]
  return {
    variable,
    placeholder,
    secret,
    places: new Set(places),
    origins: parseAllow(hosts),
    redactor: createRedactor({ values, keys: false, mark: placeholder }),
  }
}

/** The secrets that an origin may receive. */
export function secretsFor(
  all: readonly BrokeredSecret[],
  scheme: string,
  authority: Authority,
): readonly BrokeredSecret[] {
  return all.filter(({ origins }) => isListed(origins, scheme, authority))
}

type HeaderTexts = { readonly [name: string]: string }

/** Replaces placeholders in the headers of a request, also within basic credentials. */
export function insertIntoHeaders(headers: HeaderTexts, secrets: readonly BrokeredSecret[]): HeaderTexts {
  const inHeaders = placed(secrets, 'header')
  if (inHeaders.length === 0) return headers
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, inHeader(value, inHeaders)]))
}

/** A range could split a secret, which redaction would then miss; a server may ignore the header and send everything. */
export function withoutRange({ range: _range, 'if-range': _unless, ...rest }: HeaderTexts): HeaderTexts {
  return rest
}

/** Replaces placeholders in the query of a URL, percent-encoded. */
export function insertIntoQuery(url: URL, secrets: readonly BrokeredSecret[]): URL {
  const inQuery = placed(secrets, 'query').filter(({ placeholder }) => url.search.includes(placeholder))
  if (inQuery.length === 0) return url
  const filled = new URL(url)
  for (const { placeholder, secret } of inQuery) {
    filled.search = filled.search.replaceAll(placeholder, () => percented(secret))
  }
  return filled
}

/** Replaces placeholders in a streamed body, encoded for its media type; a body with a content encoding is unchanged. */
export function insertIntoBody(
  pieces: AsyncIterable<Uint8Array>,
  headers: HeaderTexts,
  secrets: readonly BrokeredSecret[],
): AsyncIterable<Uint8Array> {
  const inBody = placed(secrets, 'body')
  if (inBody.length === 0 || (headers['content-encoding'] ?? 'identity') !== 'identity') return pieces
  const written = writerOf(headers['content-type'] ?? '')
  return inBody.reduce((source, { placeholder, secret }) => replaced(source, placeholder, written(secret)), pieces)
}

function placed(secrets: readonly BrokeredSecret[], place: CredentialLocation): readonly BrokeredSecret[] {
  return secrets.filter(({ places }) => places.has(place))
}

function inHeader(value: string, secrets: readonly BrokeredSecret[]): string {
  const [, scheme, coded = ''] = /^(basic +)([A-Za-z0-9+/]+={0,2})$/i.exec(value) ?? []
  if (scheme === undefined) return filled(value, secrets)
  const plain = Buffer.from(coded, 'base64').toString('latin1')
  const whole = filled(plain, secrets)
  return whole === plain ? value : `${scheme}${Buffer.from(whole, 'latin1').toString('base64')}`
}

function filled(text: string, secrets: readonly BrokeredSecret[]): string {
  return secrets.reduce((done, { placeholder, secret }) => done.replaceAll(placeholder, () => secret), text)
}

function writerOf(mediaType: string): (secret: string) => string {
  if (/^application\/x-www-form-urlencoded\b/i.test(mediaType)) return percented
  if (/^application\/(?:[\w.-]+\+)?json\b/i.test(mediaType)) return (secret) => JSON.stringify(secret).slice(1, -1)
  return (secret) => secret
}

/** Percent-encodes a secret with one character per byte. */
function percented(secret: string): string {
  return encodeURIComponent(Buffer.from(secret, 'latin1').toString()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** Replaces a text in a byte stream, also across chunk boundaries. */
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

/** Length of the longest suffix of a text that is a prefix of another. */
function beginningAtEnd(text: string, whole: string): number {
  for (let length = Math.min(whole.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(whole.slice(0, length))) return length
  }
  return 0
}

/** Replaces secrets with placeholders in the alternating names and values of response headers. */
export function removeFromHeaders(headers: readonly string[], secrets: readonly BrokeredSecret[]): string[] {
  // Searching one long text is much faster than many short ones, and most contain no secret.
  const all = headers.join('\0')
  return removeSecrets(all, secrets) === all ? [...headers] : headers.map((text) => removeSecrets(text, secrets))
}

/** The same for a buffered body. */
export function removeFromBytes(bytes: Uint8Array, secrets: readonly BrokeredSecret[]): Buffer {
  return Buffer.from(removeSecrets(Buffer.from(bytes).toString('latin1'), secrets), 'latin1')
}

/** The same for a streamed body: the end of each chunk, where a secret may be incomplete, waits for the next one. */
export async function* removeFromBody(
  pieces: AsyncIterable<Uint8Array>,
  secrets: readonly BrokeredSecret[],
): AsyncGenerator<Uint8Array, void, undefined> {
  const redactors = secrets.map(({ redactor }) => redactor.pieces())
  for await (const piece of pieces) {
    const text = redactors.reduce((rest, redactor) => redactor.push(rest), Buffer.from(piece).toString('latin1'))
    if (text !== '') yield Buffer.from(text, 'latin1')
  }
  const last = redactors.reduce((before, redactor) => `${redactor.push(before)}${redactor.end()}`, '')
  if (last !== '') yield Buffer.from(last, 'latin1')
}

function removeSecrets(text: string, secrets: readonly BrokeredSecret[]): string {
  return secrets.reduce((rest, { redactor }) => redactor.text(rest), text)
}
