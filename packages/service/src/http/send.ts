import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { type Answer, safeHeaders } from './answer.ts'
import { type SendOptions, sendEvents } from './send-events.ts'

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
