import { ToolError } from '@gantry/contract'
import { isFramingHeader, isHeaderName } from '../ids/header-names.ts'

/** Names in lower case, each once, and values in turn, as undici takes them quickest. */
export type HeaderList = readonly string[]

/** All that follows a redirect to another origin: any other header could be a credential. */
const anonymous = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent'])
const everyRequest: HeaderList = [
  ...['accept', '*/*'],
  ...['accept-encoding', 'gzip, deflate, br, zstd'],
  ...['user-agent', 'gantry'],
]
const mostHeaders = 200
const mostBytes = 65_536

/** Checks a caller's headers and adds what every request has, or throws INPUT_INVALID; values are never repeated. */
export function requestHeaders(given: { readonly [name: string]: string } = {}): HeaderList {
  const headers = [...everyRequest]
  const names = Object.keys(given)
  if (names.length > mostHeaders) throw tooMany()
  let bytes = 0
  for (const name of names) {
    const value = given[name] as string
    const fault = headerFault(name, value)
    if (fault !== undefined) throw new ToolError('INPUT_INVALID', fault, { stage: 'execute' })
    bytes += name.length + value.length
    put(headers, name.toLowerCase(), value)
  }
  if (bytes > mostBytes) throw tooMany()
  return headers
}

function put(headers: string[], name: string, value: string): void {
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] !== name) continue
    headers[at + 1] = value
    return
  }
  headers.push(name, value)
}

function tooMany(): ToolError {
  const message = `A request may have ${mostHeaders} headers and ${mostBytes} bytes of them.`
  return new ToolError('INPUT_INVALID', message, { stage: 'execute' })
}

/** What may be sent to another origin than the one the headers were meant for. */
export function withoutCredentials(headers: HeaderList): HeaderList {
  return only(headers, (name) => anonymous.has(name))
}

/** What is left when a redirect drops the body. */
export function withoutBody(headers: HeaderList): HeaderList {
  return only(headers, (name) => !name.startsWith('content-'))
}

/** Whether a header goes along to another origin, where a credential in it would be lost to somebody else. */
export function followsRedirects(name: string): boolean {
  return anonymous.has(name.toLowerCase())
}

function only(headers: HeaderList, wanted: (name: string) => boolean): HeaderList {
  return headers.filter((_, at) => wanted(headers[at - (at % 2)] as string))
}

function headerFault(name: string, value: unknown): string | undefined {
  if (!isHeaderName(name)) return 'A header has a name that is not allowed.'
  // They say where a message ends or who is meant; set by a caller they would let one request carry another.
  if (isFramingHeader(name)) return `The header ${name} may not be set.`
  if (typeof value !== 'string') return `The value of the header ${name} is not a text.`
  if (/[^\t\x20-\x7e\x80-\xff]/.test(value))
    return `The value of the header ${name} has a character that is not allowed.`
  return undefined
}
