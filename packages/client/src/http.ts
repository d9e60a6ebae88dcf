import { codes, type EffectRisk, type ErrorCode, type ErrorInfo, ToolError } from '@gantry/contract'
import { credentialsOf } from './credentials.ts'
import type { readOptions } from './options.ts'

/** One request. */
export interface Request {
  readonly method?: 'GET' | 'POST'
  readonly path: string
  readonly query?: { readonly [name: string]: string | number | undefined }
  readonly headers?: { readonly [name: string]: string }
  readonly body?: object
  /** Aborts the request at once. */
  readonly signal?: AbortSignal | undefined
  /** Lets the current attempt finish, and ends its retries. */
  readonly until?: AbortSignal | undefined
  /** Timeout of the whole response, or of its headers for a stream; 30 s when absent. */
  readonly timeoutMs?: number
  /** Overrides the retries of the client. */
  readonly retries?: number
}

/** Sends requests, with retries where that is safe. Rejects with ToolError. */
export interface Http {
  /** The JSON of a response, which has the type that the API promises for the path, and its `Location`. */
  json<T>(request: Request): Promise<{ readonly body: T; readonly location: string | null }>
  /** A response with an unread body; the signal also aborts the body. */
  open(request: Request): Promise<Response>
  pause(ms: number, signal: AbortSignal | undefined): Promise<void>
}

const defaultTimeoutMs = 30_000
const longestPauseMs = 10_000
/** A longer Retry-After is not waited for; its error is thrown. */
const longestRetryAfterMs = 60_000

/**
 * Requests are sent again when there was no response, or one that requests a later attempt. That is safe for every
 * request of this client: it only reads or is idempotent, submissions by their key.
 */
export function createHttp({ url, key, fetch, retries, retryDelayMs }: ReturnType<typeof readOptions>): Http {
  const credentials = credentialsOf(key)
  const attempt = async <T>(
    request: Request,
    read: (response: Response) => Promise<T>,
    streams: boolean,
  ): Promise<T | Fault> => {
    const { method = 'GET', path, query, headers = {}, body, signal, timeoutMs = defaultTimeoutMs } = request
    const stop = new AbortController()
    const abort = (): void => stop.abort(signal?.reason)
    const timer = setTimeout(() => stop.abort(new Error(`There was no answer for ${timeoutMs} ms.`)), timeoutMs)
    signal?.addEventListener('abort', abort)
    const content: { [name: string]: string } = body === undefined ? {} : { 'content-type': 'application/json' }
    try {
      if (signal?.aborted) throw cancelled(signal)
      const address = `${url}${path}${queryText(query)}`
      const text = body === undefined ? undefined : JSON.stringify(body)
      const response = await fetch(address, {
        method,
        // Signed again for each retry, because a signature is valid once.
        headers: { ...headers, ...(await credentials({ method, url: address, body: text, headers })), ...content },
        signal: stop.signal,
        redirect: 'error',
        ...(text === undefined ? {} : { body: text }),
      })
      return response.ok ? await read(response) : await faultOf(response)
    } catch (cause) {
      if (signal?.aborted) throw cancelled(signal)
      if (ToolError.is(cause)) throw cause
      const effect = method === 'POST' ? 'possible' : 'none'
      return unreachable(url, effect, stop.signal.aborted ? stop.signal.reason : cause)
    } finally {
      clearTimeout(timer)
      if (!streams) signal?.removeEventListener('abort', abort)
    }
  }
  const send = async <T extends object>(
    request: Request,
    read: (response: Response) => Promise<T>,
    streams = false,
  ): Promise<T> => {
    const { signal, until, retries: most = retries } = request
    for (let count = 0; ; count += 1) {
      const outcome = await attempt(request, read, streams)
      if (!isFault(outcome)) return outcome
      const { error, again, retryAfterMs = 0 } = outcome
      if (!again || count >= most || retryAfterMs > longestRetryAfterMs) throw error
      const backoff = Math.min(longestPauseMs, retryDelayMs * 2 ** count)
      await pause(retryAfterMs + backoff * (0.5 + Math.random() / 2), signal ?? until)
    }
  }
  return {
    json: <T>(request: Request) =>
      send(request, async (response) => ({
        body: parse<T>(await response.text()),
        location: response.headers.get('location'),
      })),
    open: async (request) => {
      const { response } = await send(request, async (response) => ({ response }), true)
      return response
    },
    pause,
  }
}

function isFault(outcome: object): outcome is Fault {
  return 'error' in outcome && 'again' in outcome
}

function parse<T>(text: string): T {
  try {
    return JSON.parse(text === '' ? 'null' : text)
  } catch (cause) {
    throw new ToolError('SERVICE_UNAVAILABLE', 'Something other than a Gantry service answered.', { cause })
  }
}

/** An id as one path segment; an id that would change the path is NOT_FOUND. */
export function segment(id: string): string {
  if (!/^\.{0,2}$/.test(id)) return encodeURIComponent(id)
  throw new ToolError('NOT_FOUND', `There is nothing under the id ${JSON.stringify(id)}.`)
}

function queryText(query: Request['query'] = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value))
  const text = search.toString()
  return text === '' ? '' : `?${text}`
}

/** Waits; rejects with CANCELLED when the signal aborts. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      if (signal?.aborted) reject(cancelled(signal))
      else resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
    if (signal?.aborted) end()
  })
}

/** The error of a failed request, and whether it may be retried. */
interface Fault {
  readonly error: ToolError
  readonly again: boolean
  readonly retryAfterMs?: number
}

/** The error of a response. A response that is not Gantry's comes from a proxy. */
async function faultOf(response: Response): Promise<Fault> {
  const retryAfterMs = retryAfter(response.headers.get('retry-after'))
  const info = await infoOf(response)
  const error = info === undefined ? foreignError(response) : toolError(info)
  const busy = response.status === 429 || response.status === 503
  const between = info === undefined && (response.status === 502 || response.status === 504)
  return { error, again: (busy && error.retryable) || between, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** The error of a request without a response: no service, or a broken connection. */
function unreachable(url: string, effect: EffectRisk, cause: unknown): Fault {
  const error = new ToolError('SERVICE_UNAVAILABLE', `The service at ${url} does not answer.`, { cause, effect })
  return { error, again: true }
}

export function cancelled(signal: AbortSignal): ToolError {
  return new ToolError('CANCELLED', 'The caller stopped waiting.', { cause: signal.reason })
}

async function infoOf(response: Response): Promise<ErrorInfo | undefined> {
  try {
    const { error }: { readonly error?: ErrorInfo } = JSON.parse(await response.text())
    return typeof error?.code === 'string' && typeof error.message === 'string' ? error : undefined
  } catch {
    return undefined
  }
}

/** An unknown code comes from a newer service. */
function toolError({ code, message, stage, retryable, effect, details }: ErrorInfo): ToolError {
  const known: ErrorCode = Object.hasOwn(codes, code) ? code : 'INTERNAL'
  const facts = { ...details, ...(known === code ? {} : { code }) }
  return new ToolError(known, message, { stage, retryable, effect, details: facts })
}

function foreignError({ status }: Response): ToolError {
  const message = `Something other than a Gantry service answered with ${status}.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { effect: 'possible', details: { status } })
}

/** Seconds, or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  const ms = /^[0-9]{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
