const framing: ReadonlySet<string> = new Set([
  ...['host', 'content-length', 'transfer-encoding', 'connection', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['upgrade', 'expect', 'proxy-authorization', 'proxy-authenticate', 'http2-settings'],
])
const sensitive: ReadonlySet<string> = new Set([
  ...['authorization', 'cookie', 'set-cookie', 'content-type', 'content-encoding', 'accept-encoding', 'forwarded'],
  ...['x-http-method', 'x-http-method-override', 'x-method-override', 'x-original-url', 'x-rewrite-url', 'x-real-ip'],
  'idempotency-key',
])
const sensitiveFamilies = /^(?:x-forwarded|proxy)-/
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/

/** Whether a text can be the name of a header. */
export function isHeaderName(name: string): boolean {
  return token.test(name)
}

/** Whether a header belongs to the connection or to the framing of the message; nobody but the guard sets those. */
export function isFramingHeader(name: string): boolean {
  return framing.has(name.toLowerCase())
}

/** Whether a header says who sends, or how the message is read; no argument may get there unasked. */
export function isSensitiveHeader(name: string): boolean {
  const lower = name.toLowerCase()
  return sensitive.has(lower) || sensitiveFamilies.test(lower)
}
