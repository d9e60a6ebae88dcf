import { ToolError } from '@gantry/contract'

/** Names in lower case, each once, alternating with values: the fastest form for undici. */
export type HeaderList = string[]

/** The only headers that follow a redirect to another origin: any other could hold a credential. */
const anonymous = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent'])
const everyRequest: readonly string[] = [
  'accept',
  '*/*',
  'accept-encoding',
  'gzip, deflate, br, zstd',
  'user-agent',
  'gantry',
]
const mostHeaders = 200
const mostBytes = 65_536

/** Checks the headers of a caller and adds the defaults; throws INPUT_INVALID without repeating values. */
export function requestHeaders(given: { readonly [name: string]: string } = {}): HeaderList {
  const headers = [...everyRequest]
  const entries = Object.entries(given)
  if (entries.length > mostHeaders) throw tooMany()
  let bytes = 0
  for (const [name, value] of entries) {
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

/** The headers that may be sent to another origin. */
export function withoutCredentials(headers: HeaderList): HeaderList {
  return only(headers, (name) => anonymous.has(name))
}

/** The headers without those of the body, for a redirect that drops the body. */
export function withoutBody(headers: HeaderList): HeaderList {
  return only(headers, (name) => !name.startsWith('content-'))
}

/** Whether a header is sent to another origin, where a credential in it would leak. */
export function followsRedirects(name: string): boolean {
  return anonymous.has(name.toLowerCase())
}

function only(headers: HeaderList, wanted: (name: string) => boolean): HeaderList {
  return headers.filter((_, at) => wanted(headers[at - (at % 2)] ?? ''))
}

function headerFault(name: string, value: unknown): string | undefined {
  if (!isHeaderName(name)) return 'A header has a name that is not allowed.'
  // Framing headers delimit the message; a caller that sets them could smuggle a second request.
  if (isFramingHeader(name)) return `The header ${name} may not be set.`
  if (typeof value !== 'string') return `The value of the header ${name} is not a text.`
  if (/[^\t\x20-\x7e\x80-\xff]/.test(value))
    return `The value of the header ${name} has a character that is not allowed.`
  return undefined
}

const framing: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'proxy-authorization',
  'proxy-authenticate',
  'http2-settings',
])
const sensitive: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'set-cookie',
  'content-type',
  'content-encoding',
  'accept-encoding',
  'forwarded',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
  'x-real-ip',
  'idempotency-key',
])
const sensitiveFamilies = /^(?:x-forwarded|proxy)-/
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/

/** Whether a text is a valid header name. */
export function isHeaderName(name: string): boolean {
  return token.test(name)
}

/** Whether a header belongs to the connection or to the framing of the message; only the egress guard sets those. */
export function isFramingHeader(name: string): boolean {
  return framing.has(name.toLowerCase())
}

/** Whether a header identifies the sender or controls how the message is read; arguments must not set it implicitly. */
export function isSensitiveHeader(name: string): boolean {
  const lower = name.toLowerCase()
  return sensitive.has(lower) || sensitiveFamilies.test(lower)
}
