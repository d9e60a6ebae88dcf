import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/client'

/** How long a request that was cancelled stays open for the notice to reach the server first. */
const noticeMs = 1_000

/** The requests of a transport that have no answer yet. */
export interface OpenRequests {
  /** Hears that a request has its answer. */
  answered(id: unknown): void
  /** Ends the request whose stream could not be taken up again after this event; true when there is one. */
  notResumed(eventId: string): boolean
}

interface OpenRequest {
  readonly stop: AbortController
  /** The last event of its stream that had an id. */
  eventId?: string
}

/**
 * Ends requests that the SDK leaves open: one whose stream ended without the answer would wait until the call's time is
 * over, or until ten attempts to take the stream up again have failed; and one that was cancelled would, before
 * 2026-07-28, keep its connection until the server lets go.
 */
export function openRequests(transport: Transport): OpenRequests {
  const open = new Map<unknown, OpenRequest>()
  const send = transport.send.bind(transport)
  const end = (id: unknown, message: string): void => {
    // For a request that has its answer this is one answer too many, which the SDK ignores.
    if (typeof id === 'number') transport.onmessage?.({ jsonrpc: '2.0', id, error: { code: -32_000, message } })
  }
  transport.send = async (message: JSONRPCMessage, options: TransportSendOptions = {}) => {
    if (!('method' in message)) return send(message, options)
    if (!('id' in message)) {
      const cancelled = message.method === 'notifications/cancelled' ? open.get(message.params?.requestId) : undefined
      if (cancelled === undefined) return send(message, options)
      // Where every connection carries such a request, the notice waits for one that only the end of a request frees.
      const timer = setTimeout(() => cancelled.stop.abort(), noticeMs)
      try {
        return await send(message, options)
      } finally {
        clearTimeout(timer)
        cancelled.stop.abort()
      }
    }
    const { id } = message
    const request: OpenRequest = { stop: new AbortController() }
    const { requestSignal, onRequestStreamEnd, onresumptiontoken } = options
    const signals = requestSignal === undefined ? [] : [requestSignal]
    open.set(id, request)
    await send(message, {
      ...options,
      requestSignal: AbortSignal.any([...signals, request.stop.signal]),
      onresumptiontoken: (eventId) => {
        request.eventId = eventId
        onresumptiontoken?.(eventId)
      },
      onRequestStreamEnd: () => {
        onRequestStreamEnd?.()
        end(id, 'The server closed the stream without an answer.')
      },
    }).catch((error: unknown) => {
      open.delete(id)
      throw error
    })
  }
  return {
    answered: (id) => void open.delete(id),
    notResumed(eventId) {
      for (const [id, request] of open) {
        if (request.eventId !== eventId) continue
        end(id, 'The connection broke before the server answered, and the stream could not be taken up again.')
        request.stop.abort()
        open.delete(id)
        return true
      }
      return false
    },
  }
}
