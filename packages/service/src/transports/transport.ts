import type { Claim } from '../stores/call-store.ts'

/** One call as it was handed over by a transport. */
export interface Delivery {
  /** Names the delivery in logs: the call id, or the partition and offset. */
  readonly id: string
  /**
   * What was handed over: a call that is claimed already, because the transport is the store itself, or a message that
   * has yet to be read, checked, kept and claimed.
   */
  readonly body:
    | { readonly kind: 'claimed'; readonly claim: Claim }
    | { readonly kind: 'message'; readonly bytes: Uint8Array }
  /** How often it was handed over, this time included; kept by the transport, so that it survives the worker. */
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
  /** Says that the outcome is durable, so that they need not come again. Never before it is. */
  settle(deliveries: readonly Delivery[]): Promise<void>
  /** Hands them back, to come again to anybody after the time. */
  release(deliveries: readonly Delivery[], delayMs: number): Promise<void>
  /** Makes a waiting `receive` look at once. */
  wake(): void
  close(): Promise<void>
}
