import { randomUUID } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import type { AddedDocument, KnowledgeLimits } from '@gantry/knowledge'
import { limitReached, type Prepared } from '@gantry/knowledge/internal/prepare'
import { plainWords } from '@gantry/knowledge/internal/query'
import type { Database, Queries } from '../databases/database.ts'
import type { KnowledgeBounds } from './knowledge-statements.ts'
import * as sql from './knowledge-statements.ts'

/** The context of an add. */
export interface Adding {
  readonly database: Database
  readonly tenant: string
  readonly limits: KnowledgeLimits
  readonly bounds: KnowledgeBounds
  readonly meanings: Meanings
}

export interface Meanings {
  readonly model: string | undefined
  /** Vectors by text. */
  readonly vectors: ReadonlyMap<string, Float32Array>
}

interface Size {
  readonly [column: string]: unknown
  readonly id: string
  readonly chunks: number
  readonly bytes: number
}

type PresentRow = Size & { readonly digest: string }

/** Existing documents by id. */
export type Present = ReadonlyMap<string, PresentRow>

/** Chunks that are stored but belong to no document yet. */
interface Draft {
  readonly id: string
  /** The temporary id of each document's chunks, by document id. */
  readonly names: ReadonlyMap<string, string>
}

/**
 * Adds documents, all or none. Small ones are added in one transaction. The chunks of larger ones are written first, in
 * slices between which other statements run, as a draft that no search finds; the transaction then only attaches them
 * to the documents. A draft that is not attached is removed, by another process when its own is lost.
 */
export async function addPrepared(
  adding: Adding,
  prepared: readonly Prepared[],
  before: Present,
  signal: AbortSignal,
): Promise<readonly AddedDocument[]> {
  const { database, bounds } = adding
  const changed = changedOf(prepared, before)
  if (sum(changed.map(sizeOf), 'chunks') <= bounds.slice) {
    return database.transaction((queries) => put(queries, adding, prepared, undefined))
  }
  const [use] = await database.query<Use>(sql.useSql, [adding.tenant])
  refuseTooMuch(use ?? nothing, changed, before, adding.limits)
  await database.transaction((queries) => sweep(queries, bounds))
  const draft = { id: randomUUID(), names: new Map(changed.map(({ id }) => [id, randomUUID()])) }
  try {
    await putDown(adding, changed, draft, signal)
    return await database.transaction((queries) => put(queries, adding, prepared, draft))
  } catch (error) {
    // A draft that cannot be removed now is removed as stale later.
    await database.query(sql.dropDraftSql, [adding.tenant, draft.id]).catch(() => undefined)
    throw error
  }
}

async function sweep(queries: Queries, { draftSeconds }: KnowledgeBounds): Promise<void> {
  const stale = await queries.query<{ tenant: string; pieces: string[] }>(sql.staleDraftSql, [draftSeconds])
  for (const { tenant, pieces } of stale) await queries.query(sql.deletePiecesSql, [tenant, pieces])
}

async function putDown(
  { database, tenant, bounds, meanings }: Adding,
  documents: readonly Prepared[],
  { id, names }: Draft,
  signal: AbortSignal,
): Promise<void> {
  await database.query(sql.beginDraftSql, [tenant, id, [...names.values()]])
  const rows = documents.flatMap((one) => chunkRows(one, names.get(one.id) ?? one.id, meanings))
  for (const slice of slicesOf(rows, bounds.slice)) {
    signal.throwIfAborted()
    const added = await database.query(sql.addToDraftSql, [tenant, JSON.stringify(slice), id])
    if (added.length < slice.length) throw sweptError()
  }
  signal.throwIfAborted()
}

function* slicesOf<T>(all: readonly T[], size: number): Generator<readonly T[], void> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size)
}

function sweptError(): ToolError {
  const message =
    'Adding the documents took so long that their draft was removed as abandoned; nothing was added. Try again.'
  return new ToolError('STORE_UNAVAILABLE', message, { effect: 'none', details: { outcome: 'none' } })
}

/** Replaces changed documents and adds new ones, under the tenant's lock and within its limits. */
async function put(
  queries: Queries,
  { tenant, limits, bounds, meanings }: Adding,
  prepared: readonly Prepared[],
  draft: Draft | undefined,
): Promise<readonly AddedDocument[]> {
  const use = await lockUse(queries, tenant)
  const names = draft?.names ?? new Map<string, string>()
  if (draft !== undefined && (await queries.query(sql.takeUpDraftSql, [tenant, draft.id])).length === 0) {
    throw sweptError()
  }
  const before = await presentIn(queries, tenant, prepared)
  const changed = changedOf(prepared, before)
  refuseTooMuch(use, changed, before, limits)
  const replaced = changed.flatMap(({ id }) => before.get(id) ?? [])
  if (replaced.length > 0) {
    await queries.query(sql.deleteSql, [tenant, replaced.map(({ id }) => id)])
    await changeUse(queries, tenant, replaced, -1)
  }
  if (changed.length > 0) {
    const documents = changed.map((one) => documentRow(one, names.get(one.id)))
    await queries.query(sql.insertSql, [tenant, JSON.stringify(documents)])
    // With a draft, only documents that were changed or removed since it was started.
    const rows = changed.flatMap((one) => (names.has(one.id) ? [] : chunkRows(one, one.id, meanings)))
    for (const slice of slicesOf(rows, bounds.slice)) {
      await queries.query(sql.insertChunksSql, [tenant, JSON.stringify(slice)])
    }
    await changeUse(queries, tenant, changed.map(sizeOf), 1)
  }
  const taken = new Set(changed.map(({ id }) => id))
  const unused = [...names].flatMap(([id, name]) => (taken.has(id) ? [] : [name]))
  if (unused.length > 0) await queries.query(sql.deletePiecesSql, [tenant, unused])
  return prepared.map(({ id, chunks, bytes, digest }) => {
    const old = before.get(id)
    const state = old === undefined ? 'added' : old.digest === digest ? 'unchanged' : 'replaced'
    return { id, state, chunks: chunks.length, bytes }
  })
}

function changedOf(prepared: readonly Prepared[], before: Present): readonly Prepared[] {
  return prepared.filter(({ id, digest }) => before.get(id)?.digest !== digest)
}

/** Throws LIMIT_EXCEEDED when the new documents exceed the tenant's limits. */
function refuseTooMuch(use: Use, changed: readonly Prepared[], before: Present, limits: KnowledgeLimits): void {
  const replaced = changed.flatMap(({ id }) => before.get(id) ?? [])
  const bytes = use.bytes - sum(replaced, 'bytes') + sum(changed.map(sizeOf), 'bytes')
  if (use.documents - replaced.length + changed.length > limits.documents)
    throw limitReached('documents', limits.documents)
  if (bytes > limits.bytes) throw limitReached('bytes', limits.bytes)
}

function sizeOf({ id, chunks, bytes }: Prepared): Size {
  return { id, chunks: chunks.length, bytes }
}

function documentRow(document: Prepared, pieces: string | undefined): object {
  const { id, digest, title, source, tags, metadata, chunks, bytes } = document
  const kept = metadata === undefined ? null : JSON.stringify(metadata)
  return { id, digest, title, source, tags, metadata: kept, chunks: chunks.length, bytes, pieces }
}

function chunkRows({ title, tags, chunks }: Prepared, id: string, { model, vectors }: Meanings): object[] {
  return chunks.map(({ start, text }, position) => {
    const vector = vectors.get(text)
    const meaning = vector === undefined ? {} : { embedder: model, vector: base64(vector) }
    return { id, position, start, text, title, tags: tags.join(' '), plain: plainWords(text), ...meaning }
  })
}

type Use = { readonly documents: number; readonly bytes: number }
const nothing: Use = { documents: 0, bytes: 0 }

export async function lockUse(queries: Queries, tenant: string): Promise<Use> {
  await queries.query(sql.ensureUseSql, [tenant])
  const [use] = await queries.query<Use>(sql.lockUseSql, [tenant])
  return use ?? nothing
}

async function changeUse(queries: Queries, tenant: string, sizes: readonly Size[], sign: 1 | -1): Promise<void> {
  const [chunks, bytes] = [sum(sizes, 'chunks'), sum(sizes, 'bytes')]
  await queries.query(sql.changeUseSql, [tenant, sign * sizes.length, sign * chunks, sign * bytes])
}

/** Removes documents under the tenant's lock; returns how many existed. */
export async function removeAll(queries: Queries, tenant: string, ids: readonly string[]): Promise<number> {
  const gone = await queries.query<Size>(sql.deleteSql, [tenant, ids])
  if (gone.length > 0) await changeUse(queries, tenant, gone, -1)
  return gone.length
}

function sum(sizes: readonly Size[], key: 'chunks' | 'bytes'): number {
  return sizes.reduce((all, size) => all + size[key], 0)
}

export async function presentIn(queries: Queries, tenant: string, prepared: readonly Prepared[]): Promise<Present> {
  const rows = await queries.query<PresentRow>(sql.presentSql, [tenant, prepared.map(({ id }) => id)])
  return new Map(rows.map((row) => [row.id, row]))
}

function base64({ buffer, byteOffset, byteLength }: Float32Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}
