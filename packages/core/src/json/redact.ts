import type { Json } from '@gantry/contract'

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
  /** Secret values; each is also looked for as base64, base64url, hex, URL, JSON and HTML text. */
  readonly values?: readonly string[]
  /** Blanks members by the sound of their key; on unless false. */
  readonly keys?: boolean
}

const secretWords = new Set([
  ...['password', 'passwd', 'passphrase', 'pass', 'pwd', 'secret', 'secrets', 'token', 'auth'],
  ...['authorization', 'credential', 'credentials', 'cookie', 'cookies', 'apikey', 'privatekey', 'accesskey', 'bearer'],
])
const keyAdjectives = new Set(['api', 'private', 'access', 'signing', 'encryption', 'secret', 'session'])
/** Shorter values would blank ordinary text; `secrets/` refuses them. */
export const shortestSecret = 4

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
  const forms = [...new Set((options.values ?? []).flatMap(formsOf))].sort((a, b) => b.length - a.length)
  const byKey = options.keys !== false

  const text = (from: string): string => {
    const found = forms.flatMap((form) => placesOf(form, from))
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
        const kept = beginningOf(forms, whole)
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

function placesOf(form: string, text: string): Span[] {
  const found: Span[] = []
  for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) found.push([at, at + form.length])
  return found
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

/** How many characters at the end of a text could be the beginning of a secret. */
function beginningOf(forms: readonly string[], text: string): number {
  let most = 0
  for (const form of forms) {
    for (let length = Math.min(form.length - 1, text.length); length > most; length--) {
      if (text.endsWith(form.slice(0, length))) most = length
    }
  }
  return most
}

/** Assigns without ever reaching a prototype. */
function define(target: { [key: string]: Json }, key: string, value: Json): void {
  if (key === '__proto__') Object.defineProperty(target, key, { value, enumerable: true, configurable: true })
  else target[key] = value
}

function inHtml(text: string): string {
  const names: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text.replace(/[&<>"']/g, (character) => names[character] ?? character)
}

/** How a secret may show up in text; the base64 forms cover each of the three alignments within a longer text. */
function formsOf(secret: string): string[] {
  if (secret.length < shortestSecret) return []
  const bytes = Buffer.from(secret)
  const inJson = JSON.stringify(secret).slice(1, -1)
  const forms = [secret, inJson, JSON.stringify(inJson).slice(1, -1), inJson.replaceAll('/', '\\/'), inHtml(secret)]
  for (const encoded of [encodeURIComponent(secret.toWellFormed()), encodeURI(secret.toWellFormed())]) {
    forms.push(
      encoded,
      encoded.replace(/%[0-9A-F]{2}/g, (found) => found.toLowerCase()),
    )
  }
  forms.push(bytes.toString('hex'), bytes.toString('hex').toUpperCase())
  for (let shift = 0; shift < 3; shift++) {
    const padded = Buffer.concat([Buffer.alloc(shift), bytes])
    const whole = Math.floor((padded.length * 8) / 6)
    const aligned = padded.toString('base64').slice(Math.ceil((shift * 8) / 6), whole)
    if (aligned.length >= shortestSecret * 2 || shift === 0) {
      forms.push(aligned, aligned.replaceAll('+', '-').replaceAll('/', '_'))
    }
  }
  return forms.filter((form) => form.length >= shortestSecret)
}
