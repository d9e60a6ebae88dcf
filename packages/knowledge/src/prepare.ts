import { setImmediate as breathe } from 'node:timers/promises'
import { type JsonObject, ToolError } from '@gantry/contract'
import { digestOf } from '@gantry/core/internal/json/canonical'
import { utf8Length } from '@gantry/core/internal/json/plain'
import { tokenize } from '@gantry/core/internal/search/tokenize'
import type { NewDocument } from './knowledge.ts'

/** A document in its stored form. */
export interface Prepared {
  readonly id: string
  readonly title: string | undefined
  readonly source: string | undefined
  readonly tags: readonly string[]
  readonly metadata: JsonObject | undefined
  readonly chunks: readonly Chunk[]
  readonly bytes: number
  /** Digest of the document; equal digests mean an unchanged document. */
  readonly digest: string
}

/** The size limit of all texts of one `add`. */
const mostBytes = 16_777_216
const mostMetadata = 16_384
/** Chunks per slice, a few milliseconds of work. */
const chunksPerTick = 256

/**
 * Prepares documents for storage in slices, so that long ones do not block the event loop.
 * Throws LIMIT_EXCEEDED for too much text, INPUT_INVALID for an empty text and for a duplicate id.
 */
export async function prepareDocuments(
  documents: readonly NewDocument[],
  signal: AbortSignal,
): Promise<readonly Prepared[]> {
  const prepared = new Map<string, Prepared>()
  let bytes = 0
  for (const [index, document] of documents.entries()) {
    const one = await prepare(document, signal)
    bytes += one.bytes
    if (bytes > mostBytes) throw tooMuch()
    if (prepared.has(one.id)) throw repeated(document, index, [...prepared.keys()].indexOf(one.id))
    prepared.set(one.id, one)
  }
  return [...prepared.values()]
}

async function prepare(document: NewDocument, signal: AbortSignal): Promise<Prepared> {
  const text = clean(document.text).replaceAll('\r\n', '\n')
  const bytes = utf8Length(text)
  if (bytes > mostBytes) throw tooMuch()
  if (text.trim() === '') throw invalid('/text', 'holds nothing to find')
  const title = optional(document.title)
  const source = optional(document.source)
  const tags = [...new Set((document.tags ?? []).map(clean))].sort()
  const { metadata } = document
  if (metadata !== undefined && JSON.stringify(metadata).length > mostMetadata) {
    throw invalid('/metadata', `is longer than ${mostMetadata} characters`)
  }
  const chunks: Chunk[] = []
  for (const chunk of splitText(text)) {
    chunks.push(chunk)
    if (chunks.length % chunksPerTick === 0) await breathe(undefined, { signal })
  }
  const id = document.id === undefined ? `doc_${digestOf([source ?? null, text]).slice(-32)}` : clean(document.id)
  const digest = digestOf([text, title ?? null, source ?? null, tags, metadata ?? null])
  return { id, title, source, tags, metadata, chunks, bytes, digest }
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('INPUT_INVALID', `${path} of a document ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}

/** The error of a duplicate id; storing both would silently lose one. */
function repeated({ id }: NewDocument, index: number, first: number): ToolError {
  const issue =
    id === undefined
      ? { path: `/documents/${index}`, message: `has the text and source of /documents/${first}, and so its id` }
      : { path: `/documents/${index}/id`, message: `is the id of /documents/${first} too` }
  const message = `${issue.message}; give each its own`
  return new ToolError('INPUT_INVALID', `Nothing was added: ${issue.path} ${message}.`, {
    effect: 'none',
    details: { issues: [{ path: issue.path, message }] },
  })
}

function optional(text: string | undefined): string | undefined {
  return text === undefined ? undefined : clean(text)
}

/** Replaces characters that a database cannot store. */
export function clean(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}

function tooMuch(): ToolError {
  const message = `No more than ${mostBytes} bytes of text can be added at once; add them in several calls.`
  return new ToolError('LIMIT_EXCEEDED', message, { effect: 'none', details: { limit: 'addBytes', most: mostBytes } })
}

/** The same for a document of another tenant and for one that does not exist. */
export function unknownDocument(): ToolError {
  return new ToolError('NOT_FOUND', 'There is no document of this id.')
}

/** The error of an add over the limits of the tenant. */
export function limitReached(limit: 'documents' | 'bytes', most: number): ToolError {
  const message = `The tenant may keep ${most} ${limit === 'bytes' ? 'bytes of text' : 'documents'} and no more. Remove some, or raise knowledge.${limit}.`
  return new ToolError('LIMIT_EXCEEDED', message, { effect: 'none', details: { limit: `knowledge.${limit}`, most } })
}

/** A chunk of a text. */
interface Chunk {
  /** In UTF-16 units. */
  readonly start: number
  readonly text: string
}

const mostUnits = 1_200
/** The words of a chunk, within the index limit less title and tags; scripts without spaces have many per length. */
const mostTokens = 150
/** Separators to split at, best first; each is searched for in the second half of a chunk. */
const seams: readonly RegExp[] = [/\n\s*\n/g, /\n/g, /[.!?][)"'”’]?\s|[。！？]/g, /\s/g]

/** Splits a text into chunks, at paragraphs, lines, sentences or words if possible; the chunks join to the text. */
export function* splitText(text: string): Generator<Chunk, void> {
  for (let start = 0; start < text.length; ) {
    const end = endOf(text, start)
    yield { start, text: text.slice(start, end) }
    start = end
  }
}

function endOf(text: string, start: number): number {
  const window = text.slice(start, start + mostUnits)
  const tokens: string[] = []
  tokenize(window, tokens, mostUnits)
  const size = tokens.length <= mostTokens ? window.length : Math.floor((window.length * mostTokens) / tokens.length)
  if (start + size >= text.length) return text.length
  return start + whole(window, seamIn(window.slice(0, size)) ?? size)
}

/** The position after the last separator of the best kind. */
function seamIn(window: string): number | undefined {
  const half = window.length >> 1
  for (const seam of seams) {
    let last: number | undefined
    for (const match of window.slice(half).matchAll(seam)) last = half + match.index + match[0].length
    if (last !== undefined) return last
  }
  return undefined
}

/** A position that does not split a surrogate pair. */
function whole(window: string, at: number): number {
  const code = window.charCodeAt(at - 1)
  return at > 1 && code >= 0xd800 && code <= 0xdbff ? at - 1 : at
}
