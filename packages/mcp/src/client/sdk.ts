import type { Transport } from '@modelcontextprotocol/client'

/** The official client library, loaded when the first server is needed: it is too large to load at every start. */
export type Sdk = typeof import('@modelcontextprotocol/client')

export function loadSdk(): Promise<Sdk> {
  return import('@modelcontextprotocol/client')
}

/** A transport with its status. */
export interface Link {
  readonly transport: Transport
  /** Why the link ended, in a sentence; undefined while it may still work. */
  ended(): string | undefined
  /** Why the server is probably unreachable although nothing has closed; undefined after a response. */
  lost?(): string | undefined
  /** Called when a request has its response. */
  answered?(id: unknown): void
  /** Ends the session that a server keeps for this link; may fail. */
  leave?(): Promise<void>
}
