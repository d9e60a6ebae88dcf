import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { type StreamEvent, ToolError } from '@gantry/contract'
import { type Answer, safeHeaders } from './answer.ts'

/** Writes an answer. Resolves when it is out or the client has gone; rejects when it cannot be written at all. */
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
  /** Aborts when the client has gone, the server closes, or the credential of the request counts no longer. */
  readonly signal: AbortSignal
  /** Hears why a stream could not be read to its end. */
  failed(error: unknown): void
}

/**
 * Writes events as they come and as fast as the client takes them, with a comment now and then while there are none.
 * JSON text holds no line break, so that no event can pass for another. A stream that is whole ends; one that is not,
 * because it broke on our side, the server closes or its reader may read no further, is cut off, from which its reader
 * knows to ask again. Never rejects.
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
  // One who does not read would never let the last words out.
  else if (response.writableNeedDrain) response.destroy()
  else response.write(`: ${lastWords(signal)}\n\n`, () => response.destroy())
}

function lastWords({ reason }: AbortSignal): string {
  const known = !ToolError.is(reason) || reason.code !== 'UNAUTHENTICATED'
  return known ? 'ask again after the last event' : 'the credential of this stream counts no longer'
}

function textOf(event: StreamEvent): string {
  return `id: ${event.id}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`
}
