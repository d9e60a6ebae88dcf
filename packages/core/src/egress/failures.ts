import { ToolError } from '@gantry/contract'
import type { Target } from './target.ts'

/** The code of an error of Node or undici. */
export function codeOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[A-Z0-9_]{2,60}$/.test(code) ? code : 'unknown fault'
}

/** BACKEND_UNAVAILABLE: no connection was made, so nothing was sent. */
export function unreachable({ host, origin }: Target, cause: unknown): ToolError {
  if (ToolError.is(cause)) return cause
  return new ToolError('BACKEND_UNAVAILABLE', reachWords(host, origin, codeOf(cause)), { cause })
}

function reachWords(host: string, origin: string, code: string): string {
  if (code === 'ENOTFOUND' || code === 'ENODATA') return `The name ${host} was not found.`
  if (code.startsWith('EAI_') || code === 'ESERVFAIL' || code === 'ETIMEOUT')
    return `The name ${host} could not be looked up (${code}).`
  if (code === 'ETIMEDOUT') return `${origin} did not answer in time.`
  if (code === 'ECONNREFUSED') return `${origin} refused the connection.`
  if (/CERT|^ERR_TLS|^ERR_SSL|SIGNED|ISSUER|SIGNATURE/.test(code))
    return `The TLS handshake with ${origin} failed (${code}).`
  return `Could not connect to ${origin} (${code}).`
}

/** BACKEND_FAILED: the request failed after sending began; `safe` when it has no side effect. */
export function broken(origin: string, safe: boolean, cause: unknown): ToolError {
  if (ToolError.is(cause)) return cause
  const options = { cause, effect: safe ? 'none' : 'possible', retryable: safe } as const
  return new ToolError('BACKEND_FAILED', `${origin} ${brokenWords(cause)}.`, options)
}

function brokenWords(cause: unknown): string {
  const code = codeOf(cause)
  const words: { readonly [code: string]: string } = {
    UND_ERR_HEADERS_OVERFLOW: 'sent more headers than allowed',
    UND_ERR_BODY_TIMEOUT: 'stopped in the middle of its response',
    UND_ERR_SOCKET: 'closed the connection before its response was complete',
    UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'sent a body that does not match its Content-Length',
    ECONNRESET: 'broke the connection before its response was complete',
    EPIPE: 'broke the connection before the request was sent',
    Z_BUF_ERROR: 'sent a truncated compressed body',
  }
  const known = Object.hasOwn(words, code) ? words[code] : undefined
  if (known !== undefined) return known
  if (/^(Z_|ERR_?_?BROTLI|ERR_BROTLI|ZSTD_|ERR_ZSTD)/.test(code))
    return `sent a compressed body that cannot be decoded (${code})`
  return /^HPE_/.test(code) ? `sent something that is not HTTP (${code})` : `failed (${code})`
}
