import type { ArtifactRef, Identity } from '@gantry/contract'

/** An artifact as a list shows it. */
export interface ArtifactInfo extends ArtifactRef {
  readonly createdAt: string
}

/** A file that is to be kept. */
export interface NewArtifact {
  /** A plain name, without folders. */
  readonly name: string
  readonly mimeType: string
  readonly content: Uint8Array
}

/** The call that makes a file, and whose it is. */
export interface ArtifactMaker {
  readonly identity: Identity
  readonly callId: string
  /** Of the attempt, where calls have several. */
  readonly fence: number | undefined
}

export interface ArtifactQuery {
  /** What the names begin with. */
  readonly prefix?: string | undefined
  readonly cursor?: string | undefined
  readonly limit: number
}

/**
 * Files of callers, kept outside of results. Each has an id that cannot be guessed, and never changes; its digest is what
 * an approval is bound to.
 * - Tenants: whoever asks sees files of his own tenant; one of another is NOT_FOUND, like one that never was.
 * - Concurrency: any number of readers and writers.
 * - Errors: NOT_FOUND; INPUT_INVALID for a cursor that no list gave; STORE_UNAVAILABLE when the place cannot be reached;
 *   LIMIT_EXCEEDED for more than it takes.
 * - Ownership: content that is handed in or out is the receiver's own.
 */
export interface Artifacts {
  /** Safe when it resolves. */
  put(file: NewArtifact, maker: ArtifactMaker, signal: AbortSignal): Promise<ArtifactRef>
  info(id: string, reader: Identity, signal: AbortSignal): Promise<ArtifactInfo>
  /** Bytes from `start` on, up to but without `end`; what is beyond the content is left out. */
  read(id: string, reader: Identity, range: ArtifactRange, signal: AbortSignal): Promise<ReadArtifact>
  /** The newest first. */
  list(query: ArtifactQuery, reader: Identity, signal: AbortSignal): Promise<ArtifactPage>
  /**
   * Takes a file away for good; false when there was none. Results that name it keep its id, which is then NOT_FOUND.
   * DENIED for one that somebody else of the tenant made, or that belongs to the record of a call.
   */
  remove(id: string, reader: Identity, signal: AbortSignal): Promise<boolean>
}

export interface ArtifactRange {
  readonly start: number
  readonly end: number
}

export interface ReadArtifact {
  readonly artifact: ArtifactInfo
  readonly content: Uint8Array
}

export interface ArtifactPage {
  readonly items: readonly ArtifactInfo[]
  /** Absent on the last page. */
  readonly cursor?: string
}
