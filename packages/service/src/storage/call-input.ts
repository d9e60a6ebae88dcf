import type { JsonObject, OnCircuitOpen } from '@gantry/contract'

/** A call as a door hands it in; everything in it is as hostile as its sender. */
export interface CallInput {
  readonly kind: 'call' | 'chain'
  /** `namespace:name`, with a version, a range or neither; absent for a chain. */
  readonly tool?: string
  /** The arguments, or `{ steps, input }` of a chain. */
  readonly args: unknown
  readonly idempotencyKey?: string
  readonly schemaDigest?: string
  readonly priority?: number
  readonly timeoutMs?: number
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** ISO time after which the call is worthless. */
  readonly deadline?: string
  readonly callback?: string
  /** What becomes of it while its circuit is open; what its tool says when absent. */
  readonly onCircuitOpen?: OnCircuitOpen
  readonly traceparent?: string
  /** What a gateway says of the occasion, as its codec has bounded it; no other way in has any. */
  readonly origin?: JsonObject
}

export interface PageQuery {
  readonly limit?: number
  readonly cursor?: string
}
