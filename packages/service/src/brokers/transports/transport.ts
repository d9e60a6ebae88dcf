import type { Claim } from '../../storage/calls/call-store.ts'
import type { Message } from './message.ts'

/** One call as it was handed over by a transport. */
export interface Delivery {
  /** Names the delivery in logs: the call id, or where the message stands. */
  readonly id: string
  /**
   * What was handed over: a call that is claimed already, because the transport is the store itself, or a message that
   * has yet to be read, checked and kept.
   */
  readonly body:
    | { readonly kind: 'claimed'; readonly claim: Claim }
    | { readonly kind: 'message'; readonly message: Message }
    /** A message that was removed before anybody settled it: there is nothing left but that it was there. */
    | { readonly kind: 'gone'; readonly source: string; readonly position: string }
  /** How often it was handed over, this time included, as far as the transport can tell. */
  readonly deliveries: number
}

/**
 * Where calls come from. Every call is handed over at least once, until it is settled.
 * - Concurrency: one `receive` at a time; `settle` and `release` at any time, for deliveries in any order.
 * - Cancellation: `receive` resolves with nothing when its signal aborts; it never leaves a delivery unaccounted for.
 * - Errors: STORE_UNAVAILABLE when the broker cannot be reached; the caller tries again with growing pauses.
 */
export interface Transport {
  readonly kind: string
  /** Up to `max` deliveries; waits for the first. */
  receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]>
  /** Says that they are in safe hands, so that they need not come again. Never before that is durable. */
  settle(deliveries: readonly Delivery[]): Promise<void>
  /** Hands them back, to come again to anybody after the time. */
  release(deliveries: readonly Delivery[], delayMs: number): Promise<void>
  /** Makes a waiting `receive` look at once. */
  wake(): void
  /** Messages that wait in the broker, as far as it can tell. */
  lag?(): Promise<number>
  close(): Promise<void>
}
