import { isObject, isText } from '@gantry/contract/internal/json'
import type { Claim } from '../../storage/calls/call-store.ts'

/** One delivery of a transport. */
export interface Delivery {
  /** Names the delivery in logs: the call id, or the position of the message. */
  readonly id: string
  /**
   * Either a call that is claimed already, because the transport is the store itself, or a message that has yet to be
   * decoded, checked and stored.
   */
  readonly body:
    | { readonly kind: 'claimed'; readonly claim: Claim }
    | { readonly kind: 'message'; readonly message: Message }
    /** A message that was removed before it was settled: only its position is known. */
    | { readonly kind: 'gone'; readonly source: string; readonly position: string }
  /** The number of deliveries, this one included, as far as the transport knows. */
  readonly deliveries: number
}

/**
 * A source of calls. Every call is delivered at least once, until it is settled.
 * - Concurrency: one `receive` at a time; `settle` and `release` at any time, for deliveries in any order.
 * - Cancellation: `receive` resolves with an empty list when its signal aborts; it never loses a delivery.
 * - Errors: STORE_UNAVAILABLE when the broker is unreachable; the caller retries with growing pauses.
 */
export interface Transport {
  readonly kind: string
  /** Up to `max` deliveries; waits for the first. */
  receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]>
  /**
   * Acknowledges deliveries, so that they are not delivered again. Only called once their calls or refusals are
   * durable.
   */
  settle(deliveries: readonly Delivery[]): Promise<void>
  /** Returns deliveries, for any consumer after the delay. */
  release(deliveries: readonly Delivery[], delayMs: number): Promise<void>
  /** Makes a waiting `receive` read at once. */
  wake(): void
  /** The number of messages that wait in the broker, as far as it knows. */
  lag?(): Promise<number>
  close(): Promise<void>
}

/** A message of a broker, unchanged; everything in it is as hostile as its sender. */
export interface Message {
  readonly bytes: Uint8Array
  readonly headers: ReadonlyMap<string, Uint8Array>
  /** The topic or the stream. */
  readonly source: string
  /** The position within the source, the same at every delivery: partition and offset, or the id of the entry. */
  readonly position: string
}

/** A message for a broker. */
export interface Outgoing {
  /** The topic or the stream. */
  readonly to: string
  readonly bytes: Uint8Array
  /** Messages with the same key keep their order, where the broker supports keys. */
  readonly key?: string
  readonly headers?: { readonly [name: string]: string }
}

/** The result of one message. `error` is a sentence for people. */
export type Sent =
  | { readonly kind: 'sent' }
  | { readonly kind: 'again'; readonly error: string }
  /** A retry cannot succeed. */
  | { readonly kind: 'never'; readonly error: string }

/**
 * Sends messages to a broker.
 * - Durability: `sent` means that the broker has acknowledged the message with its full durability.
 * - Concurrency: any number of concurrent `send`; messages of one `send` with the same target and key keep their order.
 * - Errors: never rejects; returns one result for each message, in order.
 */
export interface Publisher {
  send(messages: readonly Outgoing[], signal: AbortSignal): Promise<readonly Sent[]>
  close(): Promise<void>
}

interface Packed {
  readonly transport: string
  readonly to: string
  readonly key?: string
  readonly headers?: { readonly [name: string]: string }
  readonly base64: string
}

/** Encodes a message as text, to be stored until it is sent. */
export function packMessage(transport: string, { bytes, ...rest }: Outgoing): string {
  const packed: Packed = { transport, ...rest, base64: Buffer.from(bytes).toString('base64') }
  return JSON.stringify(packed)
}

export function unpackMessage(text: string): { readonly transport: string; readonly message: Outgoing } {
  const packed: unknown = JSON.parse(text)
  if (!isPacked(packed)) throw new TypeError('The text is not a packed message.')
  const { transport, base64, ...rest } = packed
  return { transport, message: { ...rest, bytes: Buffer.from(base64, 'base64') } }
}

function isPacked(value: unknown): value is Packed {
  return isObject(value) && isText(value.transport) && isText(value.to) && isText(value.base64)
}
