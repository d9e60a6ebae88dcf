import { isUtf8 } from 'node:buffer'
import type { Json } from '@gantry/contract'
import { byteReadings, formsOf, joinEntities, joinLines, longestEntity, type SecretForms } from './secret-forms.ts'

export const redacted = '[redacted]'

/** Removes one set of secrets from texts and values. */
export interface Redactor {
  text(text: string): string
  /** A copy without secrets; bytes that are not UTF-8 are searched as Latin-1. */
  bytes(bytes: Uint8Array): Uint8Array
  /** A copy without secrets: known values anywhere, also in keys, and whole members with a secret-like key. */
  value(value: Json): Json
  /** For a streamed text: holds back the end of each piece that may be the start of a secret. */
  pieces(): PieceRedactor
  /**
   * The index up to which an unfinished text is settled: every secret that starts before it is complete. It depends on
   * the length of the secrets and on where lines and entities end, never on whether the text matches the start of a
   * secret: otherwise the writer of the text could learn the secret prefix by prefix.
   */
  settled(text: string): number
  /** The last index at or before the given one where a text can be truncated without splitting a secret. */
  cut(text: string, at: number): number
  /** The most characters that may be unsettled at the end of a text; 0 without secrets. */
  readonly reach: number
}

/** Redacts one streamed text. */
export interface PieceRedactor {
  push(piece: string): string
  /** The text held back so far; called once at the end. */
  end(): string
}

interface RedactorOptions {
  /**
   * Secret values. Each is also found as base64, base64url, hex, URL, JSON and HTML text (with any entities), in UTF-8
   * and UTF-16, composed and decomposed, encoded twice by base64 or URL, and wrapped over lines.
   */
  readonly values?: readonly string[]
  /** In values, redacts members with a secret-like key and passwords in URLs; on unless false. */
  readonly keys?: boolean
  /**
   * The replacement for a secret; it must not contain one. When absent, `[redacted]` for a known value, and the length
   * and a digest keyed by this redactor for a text that is redacted by its shape.
   */
  readonly mark?: string | RedactionMark
}

const secretWords = new Set([
  'password',
  'passwd',
  'passphrase',
  'pass',
  'pwd',
  'secret',
  'secrets',
  'token',
  'auth',
  'authorization',
  'credential',
  'credentials',
  'cookie',
  'cookies',
  'apikey',
  'privatekey',
  'accesskey',
  'bearer',
  'passcode',
  'pin',
  'otp',
  'totp',
  'jwt',
  'sessionid',
  'ssn',
  'cvv',
  'cvc',
])
const keyAdjectives = new Set(['api', 'private', 'access', 'signing', 'encryption', 'secret', 'session'])
/** Whether the name of a member marks its value as secret: `apiKey`, `AUTH_TOKEN`, but not `author` or `tokenizer`. */
export function isSecretKey(key: string): boolean {
  const words = key
    .slice(0, 200)
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
  return words.some(
    (word, index) => secretWords.has(word) || (word === 'key' && keyAdjectives.has(words[index - 1] ?? '')),
  )
}

export function createRedactor(options: RedactorOptions = {}): Redactor {
  const forms = formsOf(options.values ?? [])
  const some = forms.plain.length > 0
  const byKey = options.keys !== false
  const mark = markOf(options.mark)

  const find = (from: string): Span[] => (some ? findForms(forms, from) : [])
  const text = (from: string): string => blank(from, find(from), mark).shown
  // Created on first use: few calls have files, and few secrets differ in bytes and characters.
  let inBytes: ((from: string) => string) | undefined
  const bytes = (from: Uint8Array): Uint8Array => {
    const readings = inBytes === undefined ? byteReadings(options.values ?? []) : []
    inBytes ??=
      readings.length === 0
        ? text
        : createRedactor({ values: [...(options.values ?? []), ...readings], mark, keys: false }).text
    const encoding = isUtf8(from) ? 'utf8' : 'latin1'
    return Buffer.from(inBytes(Buffer.from(from).toString(encoding)), encoding)
  }
  const shown = byKey ? (from: string): string => blank(from, [...find(from), ...urlPasswords(from)], mark).shown : text
  const value = (from: Json): Json => {
    if (typeof from === 'string') return shown(from)
    if (Array.isArray(from)) return from.map(value)
    if (typeof from !== 'object' || from === null) return from
    const target: { [key: string]: Json } = {}
    for (const [key, member] of Object.entries(from)) {
      const hidden = byKey && isSecretKey(key) && member !== null
      define(target, shown(key), hidden ? mark(textOf(member), 'shape') : value(member))
    }
    return target
  }
  const { settled, reach } = holdbackOf(forms)
  const pieces = (): PieceRedactor => {
    let held = ''
    /** Characters at the start of the buffer that belong to a secret whose mark was already emitted. */
    let gone = 0
    const show = (to: number): string => {
      const { shown, done } = blank(held, find(held), mark, gone, to)
      held = held.slice(to)
      gone = Math.max(0, done - to)
      return shown
    }
    return {
      push(piece) {
        held += piece
        const to = settled(held)
        return to === 0 ? '' : show(to)
      },
      end: () => show(held.length),
    }
  }
  const cut = (from: string, at: number): number => beforeSpans(find(from), at)
  return { text, bytes, value, pieces, settled, cut, reach }
}

function markOf(given: RedactorOptions['mark']): RedactionMark {
  if (typeof given === 'function') return given
  if (given !== undefined) return () => given
  const ofShape = createRedactionMark()
  return (hidden, by) => (by === 'value' ? redacted : ofShape(hidden, by))
}

/** A span of a secret, found by its value, or by its shape when it says `shape`. */
type Span = readonly [start: number, end: number, by?: 'shape']

/** Searches the text itself and the text with decoded HTML entities. */
function findForms(forms: SecretForms, text: string): Span[] {
  const found = findWritten(forms, text)
  const shown = joinEntities(text, false)
  if (shown === undefined) return found
  for (const [start, end] of findWritten(forms, shown.text)) found.push([shown.place(start), shown.place(end)])
  return found
}

/** Encoded forms are searched in the joined lines, which contain every match of the single lines. */
function findWritten({ plain, encoded, rests }: SecretForms, text: string): Span[] {
  const found: Span[] = []
  addPlaces(plain, text, found)
  const joined = joinLines(text)
  if (joined === undefined) {
    addPlaces(encoded, text, found, rests)
    return found
  }
  const broken: Span[] = []
  addPlaces(encoded, joined.text, broken, rests)
  for (const [start, end] of broken) found.push([joined.place(start), joined.place(end - 1) + 1])
  return found
}

/** Adds the spans of the forms (sorted by length), each extended by the characters after it that hold its last bits. */
function addPlaces(forms: readonly string[], text: string, found: Span[], rests?: SecretForms['rests']): void {
  for (const form of forms) {
    if (form.length > text.length) return
    const rest = rests?.get(form) ?? 0
    let [start, done] = [0, 0]
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
      const end = at + form.length
      // Overlapping matches are one span: in a long run of `a`, the secret `aaaa` matches at every character.
      if (at >= done) {
        if (done > 0) found.push([start, done])
        start = at
      }
      done = rest === 0 ? end : Math.max(done, withRest(text, end, rest))
    }
    if (done > 0) found.push([start, done])
  }
}

/** The end of a base64 form, extended by up to `rest` base64 characters and the padding after them. */
function withRest(text: string, end: number, rest: number): number {
  const behind = text.slice(end, end + 3 * rest + 6)
  let length = 0
  for (let left = rest; left > 0; left--) {
    const one = /^(?:%2[BF]|[A-Za-z0-9+/_-])/i.exec(behind.slice(length))
    length += one?.[0].length ?? 0
  }
  return end + length + (/^(?:=|%3D){0,2}/i.exec(behind.slice(length))?.[0].length ?? 0)
}

/** The last index at or before `place` that is inside no span. */
function beforeSpans(spans: readonly Span[], place: number): number {
  let at = place
  for (const [start, end] of spans.toSorted((a, b) => b[1] - a[1])) if (start < at && end > at) at = start
  return at
}

/**
 * Replaces every span that starts in a part of a text by a mark, and returns where the last span ends. Overlapping
 * secrets get one mark, so that no remainder of one is left.
 */
function blank(
  text: string,
  spans: readonly Span[],
  mark: RedactionMark,
  from = 0,
  to = text.length,
): { readonly shown: string; readonly done: number } {
  if (spans.length === 0) return { shown: text.slice(from, to), done: from }
  const sorted = spans.toSorted((a, b) => a[0] - b[0])
  let shown = ''
  let done = from
  for (let next = 0; next < sorted.length; ) {
    const span = sorted[next]
    if (span === undefined || span[0] >= to) break
    const [start, first, by] = span
    let end = first
    let value = by === undefined
    for (next += 1; ; next += 1) {
      const over = sorted[next]
      if (over === undefined || over[0] >= end) break
      end = Math.max(end, over[1])
      value ||= over[2] === undefined
    }
    if (start >= done) shown += `${text.slice(done, start)}${mark(text.slice(start, end), value ? 'value' : 'shape')}`
    done = Math.max(done, end)
  }
  return { shown: done >= to ? shown : shown + text.slice(done, to), done }
}

/** The text that the mark of a member measures: a string itself, any other value as JSON. */
function textOf(member: Json): string {
  return typeof member === 'string' ? member : JSON.stringify(member)
}

/** Defines an own property, also for the key `__proto__`. */
export function define(target: { [key: string]: Json }, key: string, value: Json): void {
  if (key === '__proto__') Object.defineProperty(target, key, { value, enumerable: true, configurable: true })
  else target[key] = value
}

/** The replacement for a redacted text, which is redacted as a known value or by its shape. */
export type RedactionMark = (hidden: string, by: 'value' | 'shape') => string

/** Hex digits of the digest: long enough that no other text has the same mark, by accident or by search. */
const digits = 32

/**
 * Marks with the length of the redacted text in UTF-8 bytes and its digest, so that two redacted texts can be compared
 * and one can be recognised later. The digest is keyed, because every reader could brute-force a plain hash of a
 * password. Digests of known values and of texts redacted by shape differ, because a caller chooses the latter and could
 * confirm a guessed secret by comparing. Without a key, each set of marks has a random one.
 */
export function createRedactionMark(key?: string): RedactionMark {
  let used = key
  return (hidden, by) => {
    const { createHmac, randomBytes } = process.getBuiltinModule('node:crypto')
    used ??= randomBytes(32).toString('base64')
    const digest = createHmac('sha256', used).update(`${by}\0`).update(hidden).digest('hex').slice(0, digits)
    return `[redacted ${Buffer.byteLength(hidden)} bytes hmac-sha256:${digest}]`
  }
}

/** The span of a password, found by its shape. */
type PasswordSpan = readonly [start: number, end: number, by: 'shape']

/** Schemes in which `URL` and browsers read a backslash as a slash, so that it ends the host. */
const special = /(?:https?|wss?|ftp|file)$/i
const longestSpecial = 5
const authority = /^[^\s/?#]*/
const specialAuthority = /^[^\s/?#\\]*/

/**
 * The passwords of the URLs in a text, for any scheme: from the first colon after `://` to the last @ before the end of
 * the host. This is how a URL is parsed when it is dialled, so the redacted URL still names the real host.
 */
function urlPasswords(text: string): PasswordSpan[] {
  const found: PasswordSpan[] = []
  for (let at = text.indexOf('://'); at !== -1; at = text.indexOf('://', at + 3)) {
    const start = at + 3
    const isSpecial = special.test(text.slice(Math.max(0, at - longestSpecial), at))
    const [named = ''] = (isSpecial ? specialAuthority : authority).exec(text.slice(start)) ?? []
    const host = named.lastIndexOf('@')
    const colon = named.indexOf(':')
    if (colon !== -1 && colon + 1 < host) found.push([start + colon + 1, start + host, 'shape'])
  }
  return found
}

/**
 * How much of the end of an unfinished text is held back, because a secret may start there. It follows only from the
 * length of the secrets and the layout of the text. If it depended on the content, the writer of the text could learn
 * from the chunk boundaries whether a guessed prefix of a secret is right.
 */
export interface Holdback {
  /** The index before which every secret that starts is complete. */
  settled(text: string): number
  /** The most characters that may be held back; 0 without secrets. */
  readonly reach: number
}

/** A last character of a line after which base64 or hex, also as entities, may continue. */
const goesOn = /[A-Za-z0-9+/_%=;-]/

export function holdbackOf({ plain, encoded, rests }: SecretForms): Holdback {
  if (plain.length === 0) return { settled: (text) => text.length, reach: 0 }
  const asIs = plain.at(-1)?.length ?? 0
  // After base64 follow the characters with its last bits, each written as three at most, and the padding.
  const inBytes = encoded.reduce((most, form) => Math.max(most, form.length + 3 * (rests.get(form) ?? 0) + 7), 0)
  // Line breaks every 64 characters or more lengthen an encoded form by less than half.
  const inLines = Math.ceil(inBytes * 1.5) + 16
  const reach = (Math.max(asIs, inLines) + 1) * longestEntity
  const byLines = !plain.some((form) => form.includes('\n'))

  const begins = (text: string): number => {
    const tail = text.slice(-inLines)
    const joined = joinLines(tail) ?? { text: tail, place: (index: number) => index }
    const wrapped = text.length - tail.length + joined.place(Math.max(0, joined.text.length - inBytes))
    const farthest = Math.max(0, Math.min(text.length - asIs, wrapped))
    return byLines ? Math.max(farthest, lineEnd(text, farthest)) : farthest
  }
  return {
    reach,
    settled(text) {
      const tail = text.slice(-reach)
      const shown = joinEntities(tail, true)
      const written = begins(tail)
      const place = shown === undefined ? written : Math.min(written, shown.place(begins(shown.text)))
      return text.length - tail.length + place
    },
  }
}

/** The end of the last line after `from` that no encoded text continues; encoded text never continues over a blank line. */
function lineEnd(text: string, from: number): number {
  for (let at = text.lastIndexOf('\n'); at >= from; at = text.lastIndexOf('\n', at - 1)) {
    const last = text.charAt(text.charAt(at - 1) === '\r' ? at - 2 : at - 1)
    if (!goesOn.test(last)) return at + 1
  }
  return 0
}
