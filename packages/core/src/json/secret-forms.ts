import { isAscii } from 'node:buffer'

/** The most characters of one entity; no encoder writes more leading zeros than this allows. */
export const longestEntity = 20

/** Names of common signs, then the names of Latin-1 characters from U+00A0 on, in order. */
const signs = {
  excl: '!',
  quot: '"',
  QUOT: '"',
  num: '#',
  dollar: '$',
  percnt: '%',
  amp: '&',
  AMP: '&',
  apos: "'",
  lpar: '(',
  rpar: ')',
  ast: '*',
  midast: '*',
  plus: '+',
  comma: ',',
  period: '.',
  sol: '/',
  colon: ':',
  semi: ';',
  lt: '<',
  LT: '<',
  equals: '=',
  gt: '>',
  GT: '>',
  quest: '?',
  commat: '@',
  lsqb: '[',
  lbrack: '[',
  bsol: '\\',
  rsqb: ']',
  rbrack: ']',
  Hat: '^',
  lowbar: '_',
  UnderBar: '_',
  grave: '`',
  DiacriticalGrave: '`',
  lcub: '{',
  lbrace: '{',
  verbar: '|',
  vert: '|',
  VerticalLine: '|',
  rcub: '}',
  rbrace: '}',
  Tab: '\t',
  NewLine: '\n',
}
const latin =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro ' +
  'para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil ' +
  'Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave ' +
  'Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml ' +
  'igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute ' +
  'thorn yuml'
const named: ReadonlyMap<string, string> = new Map([
  ...Object.entries(signs),
  ...latin.split(' ').map((name, index): [string, string] => [name, String.fromCharCode(0xa0 + index)]),
])

// No capture groups: they would cost more than the rest of the match.
const entity = /&(?:#(?:0{0,9}[1-9]\d{0,6}|[xX]0{0,9}[1-9a-fA-F][0-9a-fA-F]{0,5})|[A-Za-z][A-Za-z0-9]{1,15});?/g
/** The end of a text that may be the start of an entity. */
const begun = /&(?:#(?:\d{0,16}|[xX][0-9a-fA-F]{0,15})|[A-Za-z][A-Za-z0-9]{0,15})?$/

/**
 * Decodes HTML entities once, without decoding the result again; undefined when there are none. When more text follows
 * (`more`), an incomplete entity at the end is left out.
 */
export function joinEntities(text: string, more: boolean): Joined | undefined {
  if (!text.includes('&')) return undefined
  const open = more ? (begun.exec(text.slice(-longestEntity))?.[0].length ?? 0) : 0
  const whole = text.slice(0, text.length - open)
  const joined = whole.replace(entity, (found) => characterOf(found))
  if (joined.length === text.length) return undefined
  let runs: Runs | undefined
  return {
    text: joined,
    place(index) {
      runs ??= runsOf(whole)
      const run = lineAt(runs.joined, index)
      return (runs.starts[run] ?? 0) + index - (runs.joined[run] ?? 0)
    },
  }
}

/** Start of each entity and of the text after it, as indexes into the text and into the decoded text. */
interface Runs {
  readonly starts: readonly number[]
  readonly joined: readonly number[]
}

function runsOf(text: string): Runs {
  const [starts, joined] = [[0], [0]]
  let removed = 0
  for (const { index, 0: found } of text.matchAll(entity)) {
    const { length } = characterOf(found)
    starts.push(index, index + found.length)
    joined.push(index - removed, index - removed + length)
    removed += found.length - length
  }
  return { starts, joined }
}

/** The decoded character, or the text itself when it is not an entity. */
function characterOf(whole: string): string {
  const end = whole.endsWith(';') ? whole.length - 1 : whole.length
  if (whole[1] !== '#') return named.get(whole.slice(1, end)) ?? whole
  const isHex = whole[2] === 'x' || whole[2] === 'X'
  const code = Number.parseInt(whole.slice(isHex ? 3 : 2, end), isHex ? 16 : 10)
  return code <= 0x10ffff ? String.fromCodePoint(code) : whole
}

/** A text without its line breaks or entities, and a map of its indexes to the original. */
interface Joined {
  readonly text: string
  /** The index in the original text of a character of the joined text. */
  place(index: number): number
}

/** A line break, literal or escaped as in JSON, and the indentation after it; a backslash at the end may start one. */
const breaks = /(?:\r\n?|\n|\\r\\n|\\[rn])[ \t]{0,8}|\\$/g

/** Joins the lines of a text, as a decoder of wrapped base64 does; undefined when there is only one line. */
export function joinLines(text: string): Joined | undefined {
  if (!text.includes('\n') && !text.includes('\\') && !text.includes('\r')) return undefined
  const joined = text.replace(breaks, '')
  if (joined.length === text.length) return undefined
  let lines: Lines | undefined
  return {
    text: joined,
    place(index) {
      // The index map is rarely needed and costs more than the join.
      lines ??= linesOf(text)
      const line = lineAt(lines.joined, index)
      return (lines.starts[line] ?? 0) + index - (lines.joined[line] ?? 0)
    },
  }
}

/** Start of each line, as indexes into the text and into the joined text. */
interface Lines {
  readonly starts: readonly number[]
  readonly joined: readonly number[]
}

function linesOf(text: string): Lines {
  const [starts, joined] = [[0], [0]]
  let removed = 0
  for (const { index, 0: found } of text.matchAll(breaks)) {
    joined.push(index - removed)
    removed += found.length
    starts.push(index + found.length)
  }
  return { starts, joined }
}

/** The last line that starts at or before an index. */
function lineAt(begins: readonly number[], index: number): number {
  let [low, high] = [0, begins.length - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((begins[middle] ?? 0) <= index) low = middle
    else high = middle - 1
  }
  return low
}

/** Shorter values would redact ordinary text; `secrets/` refuses them. */
export const shortestSecret = 4

/** The forms in which a secret may occur in text, shortest first. */
export interface SecretForms {
  /** Plain or escaped. */
  readonly plain: readonly string[]
  /** Encoded as base64 or hex, which programs may wrap at any position. */
  readonly encoded: readonly string[]
  /** For base64 forms: how many characters after the form hold its last bits. */
  readonly rests: ReadonlyMap<string, number>
}

/** The forms of secrets, without forms that are too short to search for. */
export function formsOf(secrets: readonly string[]): SecretForms {
  const plain = new Set<string>()
  const encoded = new Map<string, number>()
  for (const secret of secrets) {
    if (secret.length < shortestSecret) continue
    // A secret that itself contains entities changes when the text is decoded.
    const read = joinEntities(secret, false)?.text ?? secret
    for (const variant of new Set([secret, secret.normalize('NFC'), secret.normalize('NFD'), read])) {
      addPlain(variant, plain)
      addEncoded(variant, encoded)
    }
  }
  return { plain: longEnough(plain), encoded: longEnough(encoded.keys()), rests: encoded }
}

/** Each secret with its UTF-8 bytes read as Latin-1, where that differs from the secret. */
export function byteReadings(secrets: readonly string[]): string[] {
  const readings = secrets.flatMap((secret) =>
    [secret, secret.normalize('NFC'), secret.normalize('NFD')].flatMap((variant) => {
      const little = Buffer.from(variant, 'utf16le')
      const bytes = isAscii(Buffer.from(variant)) ? [] : [Buffer.from(variant), little, Buffer.from(little).swap16()]
      return bytes.map((one) => one.toString('latin1'))
    }),
  )
  return [...new Set(readings)]
}

function longEnough(forms: Iterable<string>): string[] {
  return [...forms].filter((form) => form.length >= shortestSecret).sort((a, b) => a.length - b.length)
}

function addPlain(secret: string, forms: Set<string>): void {
  const inJson = JSON.stringify(secret).slice(1, -1)
  const wide = [...secret].join('\0')
  forms
    .add(secret)
    .add(inJson)
    .add(JSON.stringify(inJson).slice(1, -1))
    .add(inJson.replaceAll('/', '\\/'))
    .add(wide)
    .add(JSON.stringify(wide).slice(1, -1))
  const sound = secret.toWellFormed()
  const strict = encodeURIComponent(sound).replace(/[!'()*]/g, percent)
  const inForm = strict.replace(/%20/g, '+')
  const inQuery = encodeURIComponent(sound).replaceAll("'", '%27')
  forms.add(encodeURIComponent(strict).replaceAll('~', '%7E'))
  for (const inUrl of [
    encodeURIComponent(sound),
    encodeURI(sound),
    inQuery,
    strict,
    inForm,
    inForm.replaceAll('%2A', '*').replaceAll('~', '%7E'),
  ]) {
    for (const form of [inUrl, encodeURIComponent(inUrl)]) forms.add(form).add(form.replace(/%[0-9A-F]{2}/g, lower))
  }
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}

function lower(text: string): string {
  return text.toLowerCase()
}

/** Hex and base64 of the secret in UTF-8 and both byte orders of UTF-16, and base64 of that base64. */
function addEncoded(secret: string, forms: Map<string, number>): void {
  const little = Buffer.from(secret, 'utf16le')
  for (const bytes of [Buffer.from(secret), little, Buffer.from(little).swap16()]) {
    const hex = bytes.toString('hex')
    for (const form of [hex, hex.toUpperCase()]) addForm(form, 0, forms)
    for (const once of base64Of(bytes, 0)) {
      addBase64(once, forms)
      if (bytes === little) continue
      for (const twice of base64Of(Buffer.from(once.text), once.rest)) addBase64(twice, forms)
    }
  }
}

interface Base64Form {
  readonly text: string
  readonly rest: number
}

function addForm(form: string, rest: number, forms: Map<string, number>): void {
  forms.set(form, Math.max(rest, forms.get(form) ?? 0))
}

function addBase64({ text, rest }: Base64Form, forms: Map<string, number>): void {
  addForm(text, rest, forms)
  addForm(text.replaceAll('+', '-').replaceAll('/', '_'), rest, forms)
  if (/[+/]/.test(text)) addForm(encodeURIComponent(text), rest, forms)
}

/**
 * The part of the base64 of a longer text that depends on these bytes alone, at each of the three alignments. When the
 * bytes are base64 themselves, `inner` characters and their padding follow, each written as two characters at most.
 */
function base64Of(bytes: Buffer, inner: number): Base64Form[] {
  const found: Base64Form[] = []
  for (let shift = 0; shift < 3; shift++) {
    const padded = Buffer.concat([Buffer.alloc(shift), bytes])
    const whole = Math.floor((padded.length * 8) / 6)
    const text = padded.toString('base64').slice(Math.ceil((shift * 8) / 6), whole)
    const rest = inner * 2 + (padded.length % 3 === 0 ? 0 : 1)
    if (text.length >= shortestSecret * 2 || shift === 0) found.push({ text, rest })
  }
  return found
}
