import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type CodeInfo, codes, type ErrorInfo, type Json, type StreamEvent, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '@gantry/core/internal/json/plain'
import type { ErrorBody } from './service.ts'

export type AnswerHeaders = { readonly [name: string]: string }

/** The response to a request. */
export type Answer = { readonly status: number; readonly headers?: AnswerHeaders } & (
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'content'; readonly content: Readable }
  | { readonly kind: 'events'; readonly events: AsyncIterable<StreamEvent> }
  | { readonly kind: 'empty' }
  /** The handler has written the response itself. */
  | { readonly kind: 'sent' }
)

export function json(body: unknown, status = 200, headers: AnswerHeaders = {}): Answer {
  return { kind: 'json', status, headers, body }
}

/** On every response: a browser must not cache, frame, sniff or run anything of it. */
export const safeHeaders: AnswerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

const longestMessage = 10_000

/**
 * The response for an error, with the common error body; the status is that of the code unless HTTP has a specific one.
 */
export function problem(error: ToolError, status?: number, headers: AnswerHeaders = {}): Answer {
  const row: CodeInfo = codes[error.code]
  const body: ErrorBody = { error: infoOf(error) }
  return json(body, status ?? row.http, { ...hints(error), ...headers })
}

/** The thrown value as a ToolError; anything else is an internal error. */
export function asToolError(thrown: unknown): ToolError {
  if (ToolError.is(thrown) && Object.hasOwn(codes, thrown.code)) return thrown
  const { code, statusCode } = isObject(thrown) ? thrown : {}
  // The router refuses some requests before they reach a route.
  const refused = typeof code === 'string' && code.startsWith('FST_') && Number(statusCode) < 500
  if (refused) return new ToolError('PAYLOAD_INVALID', 'The request is malformed.', { cause: thrown })
  return new ToolError('INTERNAL', 'The request could not be handled.', { cause: thrown })
}

/** Without the cause, which is for the log of the service, not for its callers. */
function infoOf({ code, message, stage, retryable, effect, details }: ToolError): ErrorInfo {
  return { code, message: message.slice(0, longestMessage), stage, retryable, effect, details: plain(details ?? {}) }
}

/** Details may hold anything, but only JSON is sent. */
function plain(details: object): { [key: string]: Json } {
  try {
    return copyJson(details, { convert: true, dropped: { count: 0 } }) as { [key: string]: Json }
  } catch {
    return {}
  }
}

function hints({ code, details }: ToolError): AnswerHeaders {
  const row: CodeInfo = codes[code]
  if (row.http === 401) return { 'www-authenticate': 'Bearer realm="gantry"' }
  if (row.http !== 429 && row.http !== 503) return {}
  const ms = details?.retryAfterMs
  return { 'retry-after': retryAfterText(typeof ms === 'number' ? ms : 0) }
}

/** Whole seconds, at least one. */
export function retryAfterText(ms: number): string {
  return String(ms > 0 && Number.isFinite(ms) ? Math.ceil(ms / 1_000) : 1)
}

/**
 * Writes a response. Resolves when it is sent or the client has disconnected; rejects when it cannot be written at all.
 */
export async function send(response: ServerResponse, answer: Answer, options: SendOptions): Promise<void> {
  if (answer.kind === 'sent') return
  const { status, headers } = answer
  const head = (own: { readonly [name: string]: string | number }): void => {
    response.writeHead(status, { ...safeHeaders, ...own, ...headers })
  }
  const bare = response.req.method === 'HEAD'
  if (response.destroyed) {
    if (answer.kind === 'content') answer.content.destroy()
    return
  }
  if (answer.kind === 'json' || answer.kind === 'text') {
    const text = answer.kind === 'text' ? answer.text : JSON.stringify(answer.body)
    head({ 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) })
    response.end(bare ? undefined : text)
  } else if (answer.kind === 'events') {
    head({ 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
    response.flushHeaders()
    await sendEvents(response, answer.events, options)
  } else if (answer.kind === 'content' && !bare) {
    head({})
    await pipeline(answer.content, response).catch((error: unknown) => {
      if (!options.signal.aborted) options.failed(error)
    })
  } else {
    if (answer.kind === 'content') answer.content.destroy()
    head({})
    response.end()
  }
}

interface SendOptions {
  readonly heartbeatMs: number
  /**
   * Aborts when the client has disconnected, the server closes, or the credential of the request is no longer valid.
   */
  readonly signal: AbortSignal
  /** Called with the reason why a stream could not be read to its end. */
  failed(error: unknown): void
}

/**
 * Writes events as they arrive and as fast as the client reads them, with a comment as a heartbeat while there are
 * none. JSON text holds no line break, so that no event can pass for another. A complete stream ends; an incomplete
 * one, because it failed here, the server closes or its credential is no longer valid, is cut off, from which its
 * reader knows to resume. Never rejects.
 */
async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<StreamEvent>,
  { heartbeatMs, signal, failed }: SendOptions,
): Promise<void> {
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': still here\n\n')
  }, heartbeatMs)
  let whole = false
  try {
    for await (const event of events) {
      if (signal.aborted) break
      if (!response.write(textOf(event))) await once(response, 'drain', { signal })
    }
    whole = !signal.aborted
  } catch (error) {
    if (!signal.aborted) failed(error)
  } finally {
    clearInterval(heartbeat)
  }
  if (whole) response.end()
  // A client that does not read would keep the last bytes from being sent.
  else if (response.writableNeedDrain) response.destroy()
  else response.write(`: ${lastWords(signal)}\n\n`, () => response.destroy())
}

function lastWords({ reason }: AbortSignal): string {
  const known = !ToolError.is(reason) || reason.code !== 'UNAUTHENTICATED'
  return known ? 'ask again after the last event' : 'the credential of this stream is no longer valid'
}

function textOf(event: StreamEvent): string {
  return `id: ${event.id}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`
}
