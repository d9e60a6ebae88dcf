import type { Json } from '@gantry/contract'
import { joinLines } from './line-breaks.ts'
import { formsOf, type SecretForms } from './secret-forms.ts'

export { shortestSecret } from './secret-forms.ts'

export const redacted = '[redacted]'

/** Takes secrets out of text and values; holds for one set of secrets. */
export interface Redactor {
  text(text: string): string
  /** A copy without secrets: by value everywhere, in keys too, and whole members whose key sounds like a secret. */
  value(value: Json): Json
  /** For a text that comes in pieces: what could be the beginning of a secret is held back until the next piece. */
  pieces(): PieceRedactor
}

/** Redacts one text that comes in pieces. */
export interface PieceRedactor {
  push(piece: string): string
  /** What was held back, when the text has ended. */
  end(): string
}

export interface RedactorOptions {
  /**
   * Secret values; each is also looked for as base64, base64url, hex, URL, JSON and HTML text, in UTF-8 and UTF-16, composed
   * and decomposed, encoded twice by base64 or URL, and broken over lines.
   */
  readonly values?: readonly string[]
  /** Blanks members by the sound of their key; on unless false. */
  readonly keys?: boolean
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

  const text = (from: string): string => {
    const found = some ? findForms(forms, from) : []
    return found.length === 0 ? from : blank(from, found)
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
        const whole = text(held + piece)
        const kept = some ? beginningOf(forms, whole) : 0
        held = whole.slice(whole.length - kept)
        return whole.slice(0, whole.length - kept)
      },
      end() {
        const rest = held
        held = ''
        return rest
      },
    }
  }
  return { text, value, pieces }
}

type Span = readonly [start: number, end: number]

/** Encoded forms are looked for in the joined lines of a text, which hold all that its single lines do. */
function findForms({ plain, encoded }: SecretForms, text: string): Span[] {
  const found: Span[] = []
  addPlaces(plain, text, found)
  const joined = joinLines(text)
  if (joined === undefined) {
    addPlaces(encoded, text, found)
    return found
  }
  const broken: Span[] = []
  addPlaces(encoded, joined.text, broken)
  for (const [start, end] of broken) found.push([joined.place(start), joined.place(end - 1) + 1])
  return found
}

/** Adds where forms are, which are sorted by their length. */
function addPlaces(forms: readonly string[], text: string, found: Span[]): void {
  for (const form of forms) {
    if (form.length > text.length) return
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) found.push([at, at + form.length])
  }
}

/** Blanks every span; secrets that overlap are blanked together, so that no rest of one is left beside the other. */
function blank(text: string, spans: readonly Span[]): string {
  let result = ''
  let done = 0
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    if (start >= done) result += `${text.slice(done, start)}${redacted}`
    done = Math.max(done, end)
  }
  return result + text.slice(done)
}

/** How many characters at the end of a text could be the beginning of a secret, broken over lines or not. */
function beginningOf({ plain, encoded }: SecretForms, text: string): number {
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
