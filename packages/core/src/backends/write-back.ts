import type { ArtifactRef, Json } from '@gantry/contract'

/**
 * Where what a tool writes back to its caller goes while it runs; the host of a call gives it.
 * - Order: `send` is called in the order of the messages, without waiting for the one before.
 * - Cancellation: the signal is the call's own; after it has aborted nobody waits any more.
 * - Errors: a failure is a warning on the result, never the failure of the call; the tool hears of one in `keep`.
 */
export interface WriteBack {
  /**
   * Takes a message, as it may leave, with its number within the call, from 1 on; a repeat within the call goes on
   * counting. The message counts as sent when it is safe: at once, or when the promise resolves. Without this function
   * messages are only effects of the result.
   */
  readonly send?: (message: Json, number: number, signal: AbortSignal) => void | Promise<void>
  /** Keeps a file, as it may leave; durable when it resolves. */
  readonly keep?: (file: WrittenFile, signal: AbortSignal) => Promise<ArtifactRef>
}

/** A file on its way out of a call; the content is the receiver's own. */
export interface WrittenFile {
  /** A plain name, without folders. */
  readonly name: string
  readonly mimeType: string
  readonly content: Uint8Array
}
