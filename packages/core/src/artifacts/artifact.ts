import { isUtf8 } from 'node:buffer'
import { extname } from 'node:path'
import type { ArtifactRef, Identity } from '@gantry/contract'

/** An artifact as an entry of a list. */
export interface ArtifactInfo extends ArtifactRef {
  readonly createdAt: string
}

/** A file to store. */
export interface NewArtifact {
  /** A plain name, without folders. */
  readonly name: string
  readonly mimeType: string
  readonly content: Uint8Array
}

/** The call that creates a file, and its owner. */
export interface ArtifactMaker {
  readonly identity: Identity
  readonly callId: string
  /** The fence of the attempt, for durable calls. */
  readonly fence: number | undefined
}

export interface ArtifactQuery {
  /** Lists only names with this prefix. */
  readonly prefix?: string | undefined
  readonly cursor?: string | undefined
  readonly limit: number
}

/**
 * Files of callers, stored outside of results. A file has an unguessable id and never changes; an approval is bound to
 * its digest.
 * - Tenants: a reader sees the files of its own tenant; a file of another tenant is NOT_FOUND.
 * - Concurrency: any number of readers and writers.
 * - Errors: NOT_FOUND; INPUT_INVALID for an invalid cursor; STORE_UNAVAILABLE when the store is unreachable;
 *   LIMIT_EXCEEDED when it is full.
 * - Ownership: the receiver owns the content.
 */
export interface Artifacts {
  /** Durable when it resolves. */
  put(file: NewArtifact, maker: ArtifactMaker, signal: AbortSignal): Promise<ArtifactRef>
  info(id: string, reader: Identity, signal: AbortSignal): Promise<ArtifactInfo>
  /** Bytes from `start` up to but not including `end`; a range beyond the content is clipped. */
  read(id: string, reader: Identity, range: ArtifactRange, signal: AbortSignal): Promise<ReadArtifact>
  /** Newest first. */
  list(query: ArtifactQuery, reader: Identity, signal: AbortSignal): Promise<ArtifactPage>
  /**
   * Removes a file permanently; false when there was none. Results that name it keep its id, which is then NOT_FOUND.
   * DENIED for a file of another principal of the tenant, and for one that belongs to the record of a call.
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

const text = 'text/plain'
const bytesType = 'application/octet-stream'

/** Media types by file extension, in lower case. */
const types: { readonly [extension: string]: string } = {
  avif: 'image/avif',
  csv: 'text/csv',
  gif: 'image/gif',
  gz: 'application/gzip',
  html: 'text/html',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  parquet: 'application/vnd.apache.parquet',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  tsv: 'text/tab-separated-values',
  wav: 'audio/wav',
  webm: 'video/webm',
  webp: 'image/webp',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xml: 'application/xml',
  zip: 'application/zip',
}

/** Signatures at the start of the content, for types that have one. */
const beginnings: { readonly [type: string]: string } = {
  'application/gzip': '\x1f\x8b',
  'application/pdf': '%PDF-',
  'application/zip': 'PK',
  'image/gif': 'GIF8',
  'image/jpeg': '\xff\xd8\xff',
  'image/png': '\x89PNG\r\n\x1a\n',
  'image/webp': 'RIFF',
}

/** Text types, which binary content cannot have. */
const textual = /^text\/|^application\/(?:json|xml)$|\+xml$/

/** The media type of a file by its extension where the content agrees, otherwise by its content. */
export function mediaType(name: string, content: Uint8Array): string {
  const extension = extname(name).slice(1).toLowerCase()
  const named = Object.hasOwn(types, extension) ? types[extension] : undefined
  if (named !== undefined && bearsOut(named, content)) return named
  const begun = Object.keys(beginnings).find((type) => type !== 'image/webp' && bearsOut(type, content))
  return begun ?? (isUtf8(content) ? text : bytesType)
}

function bearsOut(type: string, content: Uint8Array): boolean {
  const beginning = Object.hasOwn(beginnings, type) ? beginnings[type] : undefined
  if (beginning !== undefined)
    return Buffer.from(content.subarray(0, beginning.length)).toString('latin1') === beginning
  return !textual.test(type) || isUtf8(content)
}
