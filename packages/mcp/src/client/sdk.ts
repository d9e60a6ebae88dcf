import type { Transport } from '@modelcontextprotocol/client'

/** The official client library, loaded when the first server is needed: it is too large for everybody to wait for. */
export type Sdk = typeof import('@modelcontextprotocol/client')

export function loadSdk(): Promise<Sdk> {
  return import('@modelcontextprotocol/client')
}

/** A transport together with what its owner needs to know of it. */
export interface Link {
  readonly transport: Transport
  /** Why it is over, in a sentence; undefined while it may still work. */
  ended(): string | undefined
  /** Why there is probably nobody at the other end any more, though nothing has closed; undefined after an answer. */
  lost?(): string | undefined
  /** Hears that a request has its answer. */
  answered?(id: unknown): void
  /** Takes leave of a server that keeps something for this link; need not succeed. */
  leave?(): Promise<void>
}
