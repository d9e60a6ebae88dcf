import type { Readable } from 'node:stream'

/** A stored file. */
export interface StoredFile {
  /** `sha256:` and 64 hex digits of the content. */
  readonly digest: string
  readonly bytes: number
}

/** Bytes from `start`, up to and excluding `end`, cut at the end of the content. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * A content-addressed store: the digest is the name, so the same content is stored once and never replaced.
 * It knows no tenants; the rows that name a digest decide who may read it.
 * - Concurrency: any number of writers and readers, in any number of processes.
 * - Errors: STORE_UNAVAILABLE when the store is unreachable or full, or the content does not match its digest;
 *   NOT_FOUND for an unknown or invalid digest. An error during a read destroys the stream.
 * - Cancellation: `signal` aborts a put, which leaves no file, or a read, with its reason.
 * - Ownership: the caller reads a stream to its end or destroys it.
 */
export interface ArtifactStore {
  readonly kind: string
  /** Durable when it resolves; refuses more than `maxBytes` with RESULT_TOO_LARGE. */
  put(content: Content, options: PutOptions): Promise<StoredFile>
  /** Whether the content is stored. */
  has(digest: string, signal: AbortSignal): Promise<boolean>
  /**
   * The content, or a range of it. A complete read checks the digest and withholds the last chunk until it matches, so
   * that corrupted content never looks complete.
   */
  read(digest: string, range: ByteRange | undefined, signal: AbortSignal): Promise<Readable>
  /** Removes content that no row names; does nothing when it is missing. */
  remove(digest: string): Promise<void>
  /** The digests of content last put longer ago than this; optional. */
  list?(olderThanMs: number): AsyncIterable<string>
  /**
   * A URL by which a client can download this file directly; for a store that clients can reach. It allows one method
   * on one object for at most five minutes. Existence is not checked, so use it for files that a row names. Undefined
   * when the file must be read through the service. NOT_FOUND for an invalid digest.
   */
  presign?(digest: string, download: Download): Promise<string | undefined>
  /** Identifies where content is: equal in all processes that see the same content, and in no others. */
  place?(): Promise<string>
}

/** Options of a download. */
export interface Download {
  /** Proposed as the file's name; the response makes a browser save it, not show it. */
  readonly name: string
  /** Sent as the content type unless a browser could run it. */
  readonly mimeType: string
  /** Capped at five minutes. */
  readonly expiresMs: number
  readonly signal: AbortSignal
}

/** Content to store. */
export type Content = AsyncIterable<Uint8Array> | Uint8Array

export interface PutOptions {
  readonly maxBytes: number
  readonly signal: AbortSignal
}
