import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type StreamEvent, ToolError } from '@gantry/contract'

export interface SendOptions {
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
export async function sendEvents(
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
