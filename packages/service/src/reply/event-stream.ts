import { type Result, type StreamEnd, type StreamEvent, ToolError } from '@gantry/contract'
import type { CallViews } from '../storage/call-views.ts'
import type { EventRecords } from '../storage/events.ts'
import { createWakeSignal } from '../storage/wake-signal.ts'
import type { CallNotifications } from './waiters.ts'

export interface CallEventsOptions {
  readonly records: Pick<EventRecords, 'after'>
  readonly views: Pick<CallViews, 'outcomes'>
  readonly notifications: Pick<CallNotifications, 'onCall'>
  readonly callId: string
  /** The tenant of the call. */
  readonly tenant: string
  /** The last id that the reader has; 0 for all events. */
  readonly afterId: number
  readonly signal: AbortSignal
}

const pageSize = 100
/**
 * The first wait of a reader before it polls without a notification; each wait is longer, since few notifications are
 * lost.
 */
const firstLookMs = 1_000
const longestLookMs = 5_000

/**
 * The events of a call after an id, as they arrive, then its end. Any process can serve any reader from any id:
 * everything is read from the database, a page at a time and only on demand, so that a slow reader costs nothing.
 * - Cancellation: throws the signal's reason.
 * - Errors: NOT_FOUND when the call does not exist or is no longer stored; otherwise those of the stores.
 * - The result in the end of a chain is a ChainResult.
 */
export async function* callEvents(options: CallEventsOptions): AsyncGenerator<StreamEvent, void> {
  const { records, notifications, callId, tenant, signal } = options
  const wakeSignal = createWakeSignal()
  const unsubscribe = notifications.onCall(callId, wakeSignal.ring)
  let last = options.afterId
  let lookMs = firstLookMs
  try {
    for (;;) {
      signal.throwIfAborted()
      const page = await records.after(callId, tenant, last, pageSize)
      if (page === undefined) throw new ToolError('NOT_FOUND', 'The call does not exist or is no longer stored.')
      for (const event of page.events) {
        yield event
        last = event.id
        lookMs = firstLookMs
      }
      if (page.events.length === pageSize) continue
      if (page.endId !== undefined) {
        if (last < page.endId) yield { ...(await endOf(options)), id: page.endId, callId }
        return
      }
      await wakeSignal.wait(lookMs, signal)
      lookMs = Math.min(longestLookMs, lookMs * 2)
    }
  } finally {
    unsubscribe()
  }
}

async function endOf({ views, callId, tenant, signal }: CallEventsOptions): Promise<StreamEnd> {
  const result = (await views.outcomes([callId], signal, tenant)).get(callId) as Result | undefined
  if (result === undefined) throw new ToolError('STORE_UNAVAILABLE', 'The result of the call cannot be read now.')
  return result.error === undefined ? { kind: 'done', result } : { kind: 'error', error: result.error, result }
}
