import { isUtf8 } from 'node:buffer'
import type { Json } from '@gantry/contract'
import { joinEntities, joinLines } from './entities.ts'
import { holdbackOf } from './redaction-holdback.ts'
import { byteReadings, formsOf, type SecretForms } from './secret-forms.ts'

export const redacted = '[redacted]'

/** Takes secrets out of text and values; holds for one set of secrets. */
export interface Redactor {
  text(text: string): string
  /** A copy without secrets; what is no text is searched byte by byte. */
  bytes(bytes: Uint8Array): Uint8Array
  /** A copy without secrets: by value everywhere, in keys too, and whole members whose key sounds like a secret. */
  value(value: Json): Json
  /** For a text that comes in pieces: its end waits for the next piece, as far back as a secret in it may be unfinished. */
  pieces(): PieceRedactor
  /**
   * The place up to which a text that goes on is settled: every secret that began before it has come whole. It depends on
   * how long the secrets are and on where lines and entities end, never on whether the text is like the beginning of one:
   * whoever could choose the text would learn that way how a secret begins.
   */
  settled(text: string): number
  /** The last place, at or before the given one, where a text may be cut so that no secret in it is cut in two. */
  cut(text: string, at: number): number
  /** The most characters at the end of a text that are not settled; 0 when there is no secret. */
  readonly reach: number
}

/** Redacts one text that comes in pieces. */
export interface PieceRedactor {
  push(piece: string): string
  /** What was held back, when the text has ended. */
  end(): string
}

interface RedactorOptions {
  /**
   * Secret values; each is also looked for as base64, base64url, hex, URL, JSON and HTML text, there with any entities, in UTF-8 and UTF-16, composed
   * and decomposed, encoded twice by base64 or URL, and broken over lines.
   */
  readonly values?: readonly string[]
  /** In values, blanks members by the sound of their key, and passwords in URLs; on unless false. */
  readonly keys?: boolean
  /**
   * What stands in the place of a secret; it must hold none itself. When absent, `[redacted]` for a known value, and for
   * what is hidden by its shape its length and a digest under a key of this redactor.
   */
  readonly mark?: string | RedactionMark
}

const secretWords = new Set([
  ...['password', 'passwd', 'passphrase', 'pass', 'pwd', 'secret', 'secrets', 'token', 'auth'],
  ...['authorization', 'credential', 'credentials', 'cookie', 'cookies', 'apikey', 'privatekey', 'accesskey', 'bearer'],
  ...['passcode', 'pin', 'otp', 'totp', 'jwt', 'sessionid', 'ssn', 'cvv', 'cvc'],
])
const keyAdjectives = new Set(['api', 'private', 'access', 'signing', 'encryption', 'secret', 'session'])
/** Whether a member's name says that its value is secret: `apiKey`, `AUTH_TOKEN`, but not `author` or `tokenizer`. */
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
  // Made when it is first needed: few calls have files, and few secrets other bytes than characters.
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
    /** So much at the beginning of it belongs to a secret whose mark was shown. */
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

/** A place of a secret, known by its value unless it says `shape`. */
type Span = readonly [start: number, end: number, by?: 'shape']

/** Looks at a text as it is, and as a page shows it: with characters for its entities. */
function findForms(forms: SecretForms, text: string): Span[] {
  const found = findWritten(forms, text)
  const shown = joinEntities(text, false)
  if (shown === undefined) return found
  for (const [start, end] of findWritten(forms, shown.text)) found.push([shown.place(start), shown.place(end)])
  return found
}

/** Encoded forms are looked for in the joined lines of a text, which hold all that its single lines do. */
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

/** Adds where forms are, which are sorted by their length, each with the characters behind it that hold a rest of it. */
function addPlaces(forms: readonly string[], text: string, found: Span[], rests?: SecretForms['rests']): void {
  for (const form of forms) {
    if (form.length > text.length) return
    const rest = rests?.get(form) ?? 0
    let [start, done] = [0, 0]
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
      const end = at + form.length
      // Places that overlap are one: a secret such as aaaa is in a long run of a at each of its characters.
      if (at >= done) {
        if (done > 0) found.push([start, done])
        start = at
      }
      done = rest === 0 ? end : Math.max(done, withRest(text, end, rest))
    }
    if (done > 0) found.push([start, done])
  }
}

/** The end of a form in base64 with so many characters more, as far as they are base64, and the padding behind them. */
function withRest(text: string, end: number, rest: number): number {
  const behind = text.slice(end, end + 3 * rest + 6)
  let length = 0
  for (let left = rest; left > 0; left--) {
    const one = /^(?:%2[BF]|[A-Za-z0-9+/_-])/i.exec(behind.slice(length))
    length += one?.[0].length ?? 0
  }
  return end + length + (/^(?:=|%3D){0,2}/i.exec(behind.slice(length))?.[0].length ?? 0)
}

/** The last place at or before another that is within no span. */
function beforeSpans(spans: readonly Span[], place: number): number {
  let at = place
  for (const [start, end] of spans.toSorted((a, b) => b[1] - a[1])) if (start < at && end > at) at = start
  return at
}

/**
 * Shows a part of a text with a mark for every span that begins in it, and says where the last one ends. Secrets that
 * overlap are blanked together, so that no rest of one is left beside the other.
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
    const [start, first, by] = sorted[next] as Span
    if (start >= to) break
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

/** What is hidden of a member, as its mark measures it: a text as it is, all else as JSON. */
function textOf(member: Json): string {
  return typeof member === 'string' ? member : JSON.stringify(member)
}

/** Assigns without ever reaching a prototype. */
export function define(target: { [key: string]: Json }, key: string, value: Json): void {
  if (key === '__proto__') Object.defineProperty(target, key, { value, enumerable: true, configurable: true })
  else target[key] = value
}

/** What stands in the place of a hidden text. A text is hidden because its value is a known secret, or by its shape. */
export type RedactionMark = (hidden: string, by: 'value' | 'shape') => string

/** Digits in hex: a mark must not be met by another text by accident, nor by trying. */
const digits = 32

/**
 * Marks that say how long the hidden text is, in bytes of UTF-8, and give its digest, so that two hidden texts can be
 * compared and one can be recognised later. The digest is keyed, because a plain hash of a password can be tried out by
 * all who see it; and what is hidden by value has other digests than what is hidden by shape, because a caller can choose
 * the latter and would learn by comparing whether it guessed a secret. Without a key, each set of marks has a random one.
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

/** A place in a text that holds a password, known by its shape. */
type PasswordSpan = readonly [start: number, end: number, by: 'shape']

/** Schemes in which a backslash ends the host as a slash does, as every browser and `URL` read them. */
const special = /(?:https?|wss?|ftp|file)$/i
const longestSpecial = 5
const authority = /^[^\s/?#]*/
const specialAuthority = /^[^\s/?#\\]*/

/**
 * The passwords of the URLs in a text, of whatever scheme: from the first colon behind `://` to the last @ before the end
 * of the host, as a URL is read when it is dialled, so that what is left names the host that is meant.
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
