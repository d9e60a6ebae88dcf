import { ToolError } from '@gantry/contract'
import { isFramingHeader, isHeaderName } from '../ids/header-names.ts'

/** Headers by name in lower case. */
export type HeaderMap = ReadonlyMap<string, string>

/** All that follows a redirect to another origin: any other header could be a credential. */
const anonymous = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent'])
const everyRequest: HeaderMap = new Map([
  ['accept', '*/*'],
  ['accept-encoding', 'gzip, deflate, br, zstd'],
  ['user-agent', 'gantry'],
])
const mostHeaders = 200
const mostBytes = 65_536

/** Checks a caller's headers and adds what every request has, or throws INPUT_INVALID; values are never repeated. */
export function requestHeaders(given: { readonly [name: string]: string } | undefined): HeaderMap {
  const headers = new Map(everyRequest)
  const entries = Object.entries(given ?? {})
  let bytes = 0
  for (const [name, value] of entries) {
    const fault = headerFault(name, value)
    if (fault !== undefined) throw new ToolError('INPUT_INVALID', fault, { stage: 'execute' })
    bytes += name.length + value.length
    headers.set(name.toLowerCase(), value)
  }
  if (entries.length > mostHeaders || bytes > mostBytes) {
    throw new ToolError('INPUT_INVALID', `A request may have ${mostHeaders} headers and ${mostBytes} bytes of them.`, {
      stage: 'execute',
    })
  }
  return headers
}

/** What may be sent to another origin than the one the headers were meant for. */
export function withoutCredentials(headers: HeaderMap): HeaderMap {
  return new Map([...headers].filter(([name]) => anonymous.has(name)))
}

/** What is left when a redirect drops the body. */
export function withoutBody(headers: HeaderMap): HeaderMap {
  return new Map([...headers].filter(([name]) => !name.startsWith('content-')))
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
