import { isObject } from '@gantry/contract/internal/json'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { createRedactor, isSecretKey, redacted } from '@gantry/core/internal/json/redact'
import { shortestSecret } from '@gantry/core/internal/json/secret-forms'
import { bytesOf, type RecordedBody, type RecordedExchange, recordedBody } from './recorded-exchange.ts'
import type { Received, Sent } from './recorded-http.ts'

/** Takes secrets out of requests and responses: known values anywhere, and members with a name like `apiKey`. */
export interface SecretFilter {
  /** Adds a value, unless it is too short to be found safely. */
  conceal(value: string): void
  /** Adds the values of headers, fields of the query and the form, and members of JSON whose name suggests a secret. */
  concealSent(asked: Sent): void
  /** The same for a response, which may issue a token. */
  concealReceived(received: Received): void
  url(url: string): string
  body(body: RecordedBody | undefined, form: boolean): RecordedBody | undefined
  exchange(asked: Sent, received: Received): RecordedExchange
  /** A text that is equal for equal requests, whatever their secrets. */
  identity(
    request: { readonly method: string; readonly url: string; readonly body: RecordedBody | undefined },
    form: boolean,
  ): string
}

/** Headers that say nothing about the content, or that differ each time. */
const leftOut = new Set(['connection', 'content-encoding', 'content-length', 'date', 'keep-alive', 'transfer-encoding'])

export function createSecretFilter(): SecretFilter {
  const values = new Set<string>()
  let made: ReturnType<typeof createRedactor> | undefined
  const redactor = () => (made ??= createRedactor({ values: [...values], mark: redacted }))
  const conceal = (value: string): void => {
    if (value.length < shortestSecret || value.includes(redacted) || values.has(value)) return
    values.add(value)
    made = undefined
  }
  /** A mark that is in the text already is kept, whatever the secrets are. */
  const textOf = (text: string): string =>
    text
      .split(redacted)
      .map((part) => redactor().text(part))
      .join(redacted)
  const urlOf = (text: string): string => {
    const url = new URL(text)
    const query = fieldsOf(url.search.slice(1))
    return textOf(`${url.origin}${url.pathname}${query === '' ? '' : `?${query}`}`.replace(writtenMark, redacted))
  }
  const bodyOf = (body: RecordedBody | undefined, form: boolean): RecordedBody | undefined => {
    if (body === undefined) return undefined
    if (typeof body === 'string') return textOf(form ? fieldsOf(body) : body)
    if ('json' in body) return { json: redactor().value(body.json) }
    return { base64: Buffer.from(redactor().bytes(Buffer.from(body.base64, 'base64'))).toString('base64') }
  }
  return {
    conceal,
    concealSent(asked) {
      for (const [name, value] of Object.entries(asked.headers)) {
        if (isSecretKey(name)) conceal(value.replace(/^(?:bearer|basic|token)\s+/i, ''))
      }
      secretFields(new URL(asked.url).search.slice(1)).forEach(conceal)
      const body = recordedBody(asked.body)
      if (typeof body === 'string' && isForm(asked.headers)) secretFields(body).forEach(conceal)
      else secretMembers(body).forEach(conceal)
    },
    concealReceived: ({ body }) => secretMembers(recordedBody(body)).forEach(conceal),
    url: urlOf,
    body: bodyOf,
    exchange(asked, received) {
      const { method, url } = asked
      const sent = bodyOf(recordedBody(asked.body), isForm(asked.headers))
      const body = bodyOf(recordedBody(received.body), false)
      const headers = Object.entries(received.headers).filter(([name]) => !leftOut.has(name) && !isSecretKey(name))
      const moved = received.url === url ? {} : { url: urlOf(received.url) }
      return {
        request: { method, url: urlOf(url), ...(sent === undefined ? {} : { body: sent }) },
        response: {
          status: received.status,
          headers: Object.fromEntries(headers.map(([name, value]) => [name, textOf(value)])),
          ...(body === undefined ? {} : { body }),
          ...moved,
        },
      }
    },
    identity({ method, url, body }, form) {
      return `${method.toUpperCase()} ${urlOf(url)} ${bodyText(bodyOf(comparable(body), form))}`
    },
  }
}

/** The mark as it is written in a URL. */
const writtenMark = new RegExp(encodeURIComponent(redacted), 'gi')
const boundary = /^--([\w'()+,./:=?-]{1,70})\r\n/

/** Bodies are compared as what they hold: JSON in any order of members, a form of parts without its random boundary. */
function comparable(body: RecordedBody | undefined): RecordedBody | undefined {
  const plain = recordedBody(bytesOf(body))
  if (typeof plain !== 'string') return plain
  const [, random] = boundary.exec(plain) ?? []
  return random === undefined ? plain : plain.replaceAll(random, 'boundary')
}

function bodyText(body: RecordedBody | undefined): string {
  if (body === undefined) return ''
  if (typeof body === 'string') return body
  return 'json' in body ? canonicalJson(body.json) : `base64 ${body.base64}`
}

/** Fields of a query or a form, without the values of those whose name suggests a secret. */
function fieldsOf(text: string): string {
  const fields = text.split('&').map((field) => {
    const [name = '', value] = field.split('=', 2)
    return value !== undefined && isSecretKey(decoded(name)) ? `${name}=${redacted}` : field
  })
  return fields.join('&').replace(writtenMark, redacted)
}

/** The values of fields whose name suggests a secret, as they are written and decoded. */
function secretFields(text: string): string[] {
  return text.split('&').flatMap((field) => {
    const [name = '', value = ''] = field.split('=', 2)
    return isSecretKey(decoded(name)) ? [value, decoded(value)] : []
  })
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return text
  }
}

export function isForm(headers: Sent['headers']): boolean {
  return /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '')
}

/** Texts of members whose name suggests a secret. */
function secretMembers(body: RecordedBody | undefined): string[] {
  if (typeof body !== 'object' || !('json' in body)) return []
  const walk = (value: unknown): string[] => {
    if (Array.isArray(value)) return value.flatMap(walk)
    if (!isObject(value)) return []
    return Object.entries(value).flatMap(([name, member]) =>
      typeof member === 'string' && isSecretKey(name) ? [member] : walk(member),
    )
  }
  return walk(body.json)
}
