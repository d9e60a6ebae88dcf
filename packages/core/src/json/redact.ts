import { isUtf8 } from 'node:buffer'
import type { Json } from '@gantry/contract'
import { joinEntities, longestEntity } from './entities.ts'
import { joinLines } from './line-breaks.ts'
import { byteReadings, formsOf, type SecretForms } from './secret-forms.ts'

export { shortestSecret } from './secret-forms.ts'

export const redacted = '[redacted]'

/** Takes secrets out of text and values; holds for one set of secrets. */
export interface Redactor {
  text(text: string): string
  /** A copy without secrets; what is no text is searched byte by byte. */
  bytes(bytes: Uint8Array): Uint8Array
  /** A copy without secrets: by value everywhere, in keys too, and whole members whose key sounds like a secret. */
  value(value: Json): Json
  /** For a text that comes in pieces: what could be the beginning of a secret is held back until the next piece. */
  pieces(): PieceRedactor
  /**
   * The last place, at or before the given one, where a text may be cut so that no secret in it is cut in two. Where the
   * text goes on (`more`), what could be the beginning of one counts too.
   */
  cut(text: string, at: number, more: boolean): number
  /** How many characters a secret may take up, however it is written; 0 when there is none. */
  readonly reach: number
}

/** Redacts one text that comes in pieces. */
export interface PieceRedactor {
  push(piece: string): string
  /** What was held back, when the text has ended. */
  end(): string
}

export interface RedactorOptions {
  /**
   * Secret values; each is also looked for as base64, base64url, hex, URL, JSON and HTML text, there with any entities, in UTF-8 and UTF-16, composed
   * and decomposed, encoded twice by base64 or URL, and broken over lines.
   */
  readonly values?: readonly string[]
  /** Blanks members by the sound of their key; on unless false. */
  readonly keys?: boolean
  /** What stands in the place of a secret; `[redacted]` when absent. It must hold none itself. */
  readonly mark?: string
}

const secretWords = new Set([
  ...['password', 'passwd', 'passphrase', 'pass', 'pwd', 'secret', 'secrets', 'token', 'auth'],
  ...['authorization', 'credential', 'credentials', 'cookie', 'cookies', 'apikey', 'privatekey', 'accesskey', 'bearer'],
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
  const { mark = redacted } = options

  const text = (from: string): string => {
    const found = some ? findForms(forms, from, false) : []
    return found.length === 0 ? from : blank(from, found, mark)
  }
  // Made when it is first needed: few calls have files, and few secrets other bytes than characters.
  let inBytes: ((from: string) => string) | undefined
  const bytes = (from: Uint8Array): Uint8Array => {
    const readings = inBytes === undefined ? byteReadings(options.values ?? []) : []
    inBytes ??=
      readings.length === 0 ? text : createRedactor({ values: [...(options.values ?? []), ...readings], mark }).text
    const encoding = isUtf8(from) ? 'utf8' : 'latin1'
    return Buffer.from(inBytes(Buffer.from(from).toString(encoding)), encoding)
  }
  const value = (from: Json): Json => {
    if (typeof from === 'string') return text(from)
    if (Array.isArray(from)) return from.map(value)
    if (typeof from !== 'object' || from === null) return from
    const target: { [key: string]: Json } = {}
    for (const [key, member] of Object.entries(from)) {
      const hidden = byKey && isSecretKey(key) && member !== null
      define(target, text(key), hidden ? redacted : value(member))
    }
    return target
  }
  const pieces = (): PieceRedactor => {
    let held = ''
    return {
      push(piece) {
        const all = held + piece
        const found = some ? findForms(forms, all, true) : []
        const open = openAt(found, all, forms)
        if (open !== undefined) {
          held = all.slice(open)
          return text(all.slice(0, open))
        }
        const whole = blank(all, found, mark)
        const kept = some ? beginningOf(forms, whole) : 0
        held = whole.slice(whole.length - kept)
        return whole.slice(0, whole.length - kept)
      },
      end() {
        const rest = text(held)
        held = ''
        return rest
      },
    }
  }
  const cut = (from: string, at: number, more: boolean): number => {
    const found = some ? findForms(forms, from, more) : []
    const sure = some && more ? from.length - beginningOf(forms, from) : at
    return beforeSpans(found, Math.min(at, sure))
  }
  return { text, bytes, value, pieces, cut, reach: longestOf(forms) * longestEntity }
}

/** A place of a secret; open when its last characters, which may follow, are not there yet. */
type Span = readonly [start: number, end: number, open: boolean]

/** Looks at a text as it is, and as a page shows it: with characters for its entities. */
function findForms(forms: SecretForms, text: string, more: boolean): Span[] {
  const found = findWritten(forms, text)
  const shown = joinEntities(text, more)
  if (shown === undefined) return found
  for (const [start, end, open] of findWritten(forms, shown.text)) {
    found.push([shown.place(start), shown.place(end), open])
  }
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
  for (const [start, end, open] of broken) found.push([joined.place(start), joined.place(end - 1) + 1, open])
  return found
}

/** Adds where forms are, which are sorted by their length, each with the characters behind it that hold a rest of it. */
function addPlaces(forms: readonly string[], text: string, found: Span[], rests?: SecretForms['rests']): void {
  for (const form of forms) {
    if (form.length > text.length) return
    const rest = rests?.get(form) ?? 0
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
      const end = at + form.length
      found.push(rest === 0 ? [at, end, false] : withRest(text, at, end, rest))
    }
  }
}

/** A place in base64 with so many characters more, as far as they are base64, and the padding behind them. */
function withRest(text: string, start: number, end: number, rest: number): Span {
  const behind = text.slice(end, end + 3 * rest + 7)
  let length = 0
  for (let left = rest; left > 0; left--) {
    const one = /^(?:%2[BF]|[A-Za-z0-9+/_-])/i.exec(behind.slice(length))
    length += one?.[0].length ?? 0
  }
  length += /^(?:=|%3D){0,2}/i.exec(behind.slice(length))?.[0].length ?? 0
  return [start, end + length, /^(?:%[23]?)?$/.test(behind.slice(length))]
}

/** Where to hold a text back so that a secret that is open stays whole, with all that overlaps it. */
function openAt(spans: readonly Span[], text: string, forms: SecretForms): number | undefined {
  const starts = spans.flatMap(([start, , open]) => (open ? [start] : []))
  if (starts.length === 0) return undefined
  return beforeSpans(spans, Math.min(text.length - beginningOf(forms, text), ...starts))
}

/** The last place at or before another that is within no span. */
function beforeSpans(spans: readonly Span[], place: number): number {
  let at = place
  for (const [start, end] of spans.toSorted((a, b) => b[1] - a[1])) if (start < at && end > at) at = start
  return at
}

/** Blanks every span; secrets that overlap are blanked together, so that no rest of one is left beside the other. */
function blank(text: string, spans: readonly Span[], mark: string): string {
  let result = ''
  let done = 0
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    if (start >= done) result += `${text.slice(done, start)}${mark}`
    done = Math.max(done, end)
  }
  return result + text.slice(done)
}

/** How many characters at the end of a text could be the beginning of a secret, with entities or without. */
function beginningOf(forms: SecretForms, text: string): number {
  const most = writtenBeginningOf(forms, text)
  const tail = text.slice(-(longestOf(forms) + 1) * longestEntity)
  const shown = joinEntities(tail, true)
  if (shown === undefined) return most
  return Math.max(most, tail.length - shown.place(shown.text.length - writtenBeginningOf(forms, shown.text)))
}

function longestOf({ plain, encoded }: SecretForms): number {
  return Math.max(plain.at(-1)?.length ?? 0, encoded.at(-1)?.length ?? 0)
}

/** The same as the text is written, broken over lines or not. */
function writtenBeginningOf({ plain, encoded }: SecretForms, text: string): number {
  const most = longestBeginning(plain, text)
  // Lines of 64 characters and more, with what breaks them, make an encoded form longer by less than half.
  const longest = encoded.at(-1)?.length ?? 0
  const tail = text.slice(-Math.ceil(longest * 1.5) - 16)
  const joined = joinLines(tail)
  if (joined === undefined) return Math.max(most, longestBeginning(encoded, tail))
  const broken = longestBeginning(encoded, joined.text)
  return broken === 0 ? most : Math.max(most, tail.length - joined.place(joined.text.length - broken))
}

function longestBeginning(forms: readonly string[], text: string): number {
  let most = 0
  for (const form of forms) {
    const first = form.charAt(0)
    const from = Math.max(0, text.length - form.length + 1)
    for (let at = text.indexOf(first, from); at !== -1 && text.length - at > most; at = text.indexOf(first, at + 1)) {
      if (form.startsWith(text.slice(at))) most = text.length - at
    }
  }
  return most
}

/** Assigns without ever reaching a prototype. */
function define(target: { [key: string]: Json }, key: string, value: Json): void {
  if (key === '__proto__') Object.defineProperty(target, key, { value, enumerable: true, configurable: true })
  else target[key] = value
}
