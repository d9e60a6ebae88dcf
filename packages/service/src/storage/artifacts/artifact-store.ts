import type { Readable } from 'node:stream'

/** A file that is there. */
export interface StoredFile {
  /** `sha256:` and 64 hex digits of the content. */
  readonly digest: string
  readonly bytes: number
}

/** Bytes from `start` on, up to but without `end`; what is beyond the content is left out. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * Keeps bytes by what they are: the digest is the name, so that the same content is kept once and nothing is replaced.
 * It knows no tenants; who may read which digest is decided by the rows that name it.
 * - Concurrency: any number of writers and readers, in any number of processes.
 * - Errors: STORE_UNAVAILABLE when the store cannot be reached, is full or holds other bytes than the digest says;
 *   NOT_FOUND for a digest that is not there, or is none. What is found out while a stream is read destroys it.
 * - Cancellation: `signal` ends a put, which leaves nothing behind, or a read, with its reason.
 * - Ownership: whoever asked for a stream reads it to its end or destroys it.
 */
export interface ArtifactStore {
  readonly kind: string
  /** Durable when it resolves; refuses more than `maxBytes` with RESULT_TOO_LARGE. */
  put(content: Content, options: PutOptions): Promise<StoredFile>
  /** Whether the content is there. */
  has(digest: string, signal: AbortSignal): Promise<boolean>
  /**
   * A part of the content, or all of it. A whole read checks the digest, and holds the last piece back until it has: wrong
   * bytes never look complete.
   */
  read(digest: string, range: ByteRange | undefined, signal: AbortSignal): Promise<Readable>
  /** Removes content that no row names any more; removing what is not there is harmless. */
  remove(digest: string): Promise<void>
  /** The digests of what was last put longer ago than this; for a store that can tell. */
  list?(olderThanMs: number): AsyncIterable<string>
  /**
   * A URL by which whoever has it can download this one file for a while, past us; for a store that others can reach. It
   * allows nothing else: one method, one object, five minutes at most. What is there is not looked at, so ask for files
   * that a row names; undefined when this file has to be read through us. NOT_FOUND for what is no digest.
   */
  presign?(digest: string, download: Download): Promise<string | undefined>
}

/** How a file is to be downloaded. */
export interface Download {
  /** Proposed to whoever saves it; a browser is told to save it, not to show it. */
  readonly name: string
  /** Told to the browser unless it could be made to run something by it. */
  readonly mimeType: string
  /** At most five minutes, whatever is said here. */
  readonly expiresMs: number
  readonly signal: AbortSignal
}

/** What is to be kept. */
export type Content = AsyncIterable<Uint8Array> | Uint8Array

export interface PutOptions {
  readonly maxBytes: number
  readonly signal: AbortSignal
}
