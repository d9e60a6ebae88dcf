import { isAscii } from 'node:buffer'
import { joinEntities } from './entities.ts'

/** Shorter values would blank ordinary text; `secrets/` refuses them. */
export const shortestSecret = 4

/** How a secret may show up in text, shortest first. */
export interface SecretForms {
  /** As it is, or escaped. */
  readonly plain: readonly string[]
  /** In letters and digits that carry bytes; programs break these over lines wherever they like. */
  readonly encoded: readonly string[]
  /** Of forms in base64, how many characters behind them hold the last bits of the secret, and what comes after it. */
  readonly rests: ReadonlyMap<string, number>
}

/** The forms of secrets, without those too short to look for. */
export function formsOf(secrets: readonly string[]): SecretForms {
  const plain = new Set<string>()
  const encoded = new Map<string, number>()
  for (const secret of secrets) {
    if (secret.length < shortestSecret) continue
    // One that holds entities itself is read as another by whoever puts characters for them.
    const read = joinEntities(secret, false)?.text ?? secret
    for (const variant of new Set([secret, secret.normalize('NFC'), secret.normalize('NFD'), read])) {
      addPlain(variant, plain)
      addEncoded(variant, encoded)
    }
  }
  return { plain: longEnough(plain), encoded: longEnough(encoded.keys()), rests: encoded }
}

/** What somebody reads who takes each byte of a secret for a character, where that is not the secret itself. */
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

/** Hex and base64 of the secret in UTF-8 and both orders of UTF-16, and what base64 makes of base64. */
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
 * What of the base64 of a longer text is sure to come from these bytes, at each of the three alignments. When they are
 * base64 themselves, `inner` characters and the padding of that come behind them, each in two characters at most.
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
