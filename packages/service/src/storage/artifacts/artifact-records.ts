import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type ArtifactRef, ToolError } from '@gantry/contract'
import type { StoredQuotas } from '../../config/tenant-limits.ts'
import type { Holder } from '../calls/call-store.ts'
import type { Database } from '../databases/database.ts'
import { type Reader, seenSql, seenValues, tenantOf } from '../reader.ts'
import { removeUnnamed } from '../retention.ts'
import type { ArtifactStore, ByteRange, PutOptions } from './artifact-store.ts'

/** Owner and name of a file. */
export interface ArtifactAbout {
  readonly tenant: string
  /** The caller, whose quota the file counts against. */
  readonly principal: string
  /** The attempt that made it; fence 0 for the payload of the call. */
  readonly holder: Holder
  readonly name: string
  readonly mimeType: string
}

export interface StorageOptions {
  /** No limit when absent. */
  readonly quotas?: StoredQuotas
  /** Called for each file that a quota refuses. */
  readonly refused?: (refusal: Pick<ArtifactAbout, 'tenant' | 'principal'> & { readonly scope: Scope }) => void
}

/** An artifact with its content stream. */
export interface OpenArtifact {
  readonly artifact: ArtifactRef
  readonly content: Readable
}

/**
 * Files of calls: content in the artifact store, and a row in the table `artifacts` with its owner. The row is written
 * after the file; removing the last row of a content removes the file.
 * - Tenants: an id of another tenant, or of a call that its reader does not see, is NOT_FOUND, as an unknown id is.
 * - Errors: the database's and the artifact store's; a STORE_UNAVAILABLE of `keep` from the latter has
 *   `details.artifacts`. A file that a row names and the store has lost is STORE_UNAVAILABLE and not retryable.
 *   LIMIT_EXCEEDED with `details.scope` when the quota of the tenant or the principal is used up. The quota is checked
 *   with the insert of the row, so it is exact under concurrency; the bytes of the same content count once.
 */
export interface Artifacts {
  /** Durable when it resolves. */
  keep(content: Uint8Array, about: ArtifactAbout, options: PutOptions): Promise<ArtifactRef>
  find(id: string, reader: Reader): Promise<ArtifactRef>
  open(id: string, reader: Reader, range: ByteRange | undefined, signal: AbortSignal): Promise<OpenArtifact>
  /** A presigned URL of the content; undefined when the store has none. */
  locate(id: string, reader: Reader, expiresMs: number, signal: AbortSignal): Promise<string | undefined>
  /** A complete file by its digest, for callers that have the digest from a row of their own. */
  content(digest: string, signal: AbortSignal): Promise<Readable>
  /** Removes the payload of a call that was not admitted; does nothing for an admitted call. */
  withdraw(callId: string): Promise<void>
  /**
   * Removes the payload of an ended call that no longer needs it. Does nothing for a call without a recorded outcome,
   * or with a dead letter.
   */
  spend(callId: string): Promise<void>
}

export function artifactRecords(
  database: Database,
  store: ArtifactStore,
  { quotas = unlimited, refused = () => undefined }: StorageOptions = {},
): Artifacts {
  const ofStore = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw asOfStore(error, store.kind)
    })
  const read: ArtifactStore['read'] = (digest, range, signal) =>
    store.read(digest, range, signal).catch((error: unknown) => {
      throw isAbsent(error) ? missing(error) : error
    })
  const find = async (id: string, reader: Reader): Promise<ArtifactRef> => {
    const tenant = tenantOf(reader)
    const values = [id, tenant, ...seenValues(reader)]
    const [row] = isId(id) ? await database.asTenant(tenant).query<FoundRow>(findSql, values) : []
    if (row === undefined) throw new ToolError('NOT_FOUND', 'There is no artifact of this id.')
    const { name, mime_type: mimeType, bytes, digest } = row
    return { id, name, mimeType, bytes, digest }
  }
  const remove = (sql: string, callId: string): Promise<void> =>
    database.transaction(async (queries) => {
      const gone = await queries.query<{ digest: string }>(sql, [callId])
      await removeUnnamed(queries, store, [...new Set(gone.map(({ digest }) => digest))])
    })
  return {
    async keep(content, { tenant, principal, holder, ...about }, options) {
      const quota = quotas({ tenant, principal })
      const most = [quota.tenant.bytes, quota.tenant.files, quota.principal.bytes, quota.principal.files]
      const owner = [tenant, principal]
      const fullFor = async (digest: string): Promise<Scope | undefined> =>
        (await database.query<{ scope: Scope }>(fullSql, [...owner, content.length, ...most, digest]))[0]?.scope
      const refuse = (scope: Scope): ToolError => {
        refused({ tenant, principal, scope })
        return overQuota(scope, quota)
      }
      // Before the content is written, so that a caller over its quota cannot fill the store with refused files.
      // Content that is already counted needs no quota, which only its digest shows.
      const full = (await fullFor('')) && (await fullFor(await digestOf(content)))
      if (full !== undefined) throw refuse(full)
      const { digest, bytes } = await ofStore(store.put(content, options))
      const id = `art_${randomBytes(16).toString('hex')}`
      const name = plainName(about.name)
      const mimeType = plainType(about.mimeType)
      const row = [id, ...owner, holder.callId, holder.fence, name, mimeType, bytes, digest]
      const [added] = await database.query<{ scope: Scope | null }>(addSql, [...row, ...most])
      const scope = added?.scope ?? undefined
      if (scope !== undefined) {
        await database.transaction((queries) => removeUnnamed(queries, store, [digest]))
        throw refuse(scope)
      }
      // The last other row of the same content may have been removed in between, with the file. Now that there is a row
      // again, the file is not removed.
      if (!(await ofStore(store.has(digest, options.signal)))) await ofStore(store.put(content, options))
      return { id, name, mimeType, bytes, digest }
    },
    find,
    async open(id, reader, range, signal) {
      const artifact = await find(id, reader)
      return { artifact, content: await read(artifact.digest, range, signal) }
    },
    async locate(id, reader, expiresMs, signal) {
      const { digest, name, mimeType } = await find(id, reader)
      return store.presign?.(digest, { name, mimeType, expiresMs, signal })
    },
    content: (digest, signal) => read(digest, undefined, signal),
    withdraw: (callId) => remove(withdrawSql, callId),
    spend: (callId) => remove(spendSql, callId),
  }
}

type Scope = 'tenant' | 'principal'

/** Computed off the main thread, because files can be large. */
async function digestOf(content: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', content as Uint8Array<ArrayBuffer>)
  return `sha256:${Buffer.from(digest).toString('hex')}`
}

const unlimited: StoredQuotas = () => {
  const quota = { bytes: Number.MAX_SAFE_INTEGER, files: Number.MAX_SAFE_INTEGER }
  return { tenant: quota, principal: quota }
}

function overQuota(scope: Scope, quotas: ReturnType<StoredQuotas>): ToolError {
  const { bytes, files } = quotas[scope]
  const message =
    `The files of this ${scope} would be more than its quota of ${bytes} bytes or ${files} files; remove some, ` +
    'let some expire, or raise `stored` of the tenant in the configuration.'
  return new ToolError('LIMIT_EXCEEDED', message, { effect: 'none', stage: 'record', details: { scope, bytes, files } })
}

/** Whether the error is a refusal by a quota. */
export function isOverQuota(error: unknown): error is ToolError {
  return ToolError.is(error) && error.code === 'LIMIT_EXCEEDED' && error.details?.scope !== undefined
}

type FoundRow = { name: string; mime_type: string; bytes: number; digest: string }

/** Whether the artifact store failed, not the database. */
export function areArtifactsUnavailable(error: unknown): error is ToolError {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE' && error.details?.artifacts !== undefined
}

function asOfStore(error: unknown, artifacts: string): unknown {
  if (!ToolError.is(error) || error.code !== 'STORE_UNAVAILABLE') return error
  const { message, retryable, details } = error
  return new ToolError('STORE_UNAVAILABLE', message, {
    cause: error.cause,
    retryable,
    details: { ...details, artifacts },
  })
}

function isAbsent(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'NOT_FOUND'
}

/** The error for a row whose file the store has lost; a retry cannot succeed. */
function missing(cause: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', 'The file is no longer in the artifact store.', { cause, retryable: false })
}

function isId(id: string): boolean {
  return /^art_[0-9a-f]{32}$/.test(id)
}

const longestName = 200

/** A file name from a tool, without characters that are unsafe where it is displayed or stored. */
function plainName(name: string): string {
  return (
    name
      .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
      .slice(-longestName)
      .toWellFormed() || 'file'
  )
}

/** A media type from a tool, without its parameters; application/octet-stream when it is invalid. */
function plainType(type: string): string {
  const plain = (type.split(';', 1)[0] ?? '').trim().toLowerCase()
  return /^[a-z0-9][\w.+-]{0,63}\/[a-z0-9][\w.+-]{0,127}$/.test(plain) ? plain : 'application/octet-stream'
}

/** Takes a shared lock on the digest; retention locks it exclusively while it checks for rows and removes the file. */
const addSql = `
  select store_artifact(
    $1::text, $2::text, $3::text, $4::text, $5::integer, $6::text, $7::text, $8::bigint, $9::text,
    $10::bigint, $11::bigint, $12::bigint, $13::bigint
  ) as scope`

const isFresh = `not exists (
    select from stored_digests d where d.tenant = u.tenant and d.principal = u.principal and d.digest = $8::text
  )`

const fullSql = `
  select case principal when '' then 'tenant' else 'principal' end as scope from stored_usage u
  where tenant = $1 and (
    principal = '' and (bytes + $3::bigint > $4::bigint and ${isFresh} or files >= $5::bigint)
    or principal = $2 and principal <> '' and (bytes + $3::bigint > $6::bigint and ${isFresh} or files >= $7::bigint)
  )
  order by principal
  limit 1`

const findSql = `
  select name, mime_type, bytes, digest from artifacts a
  where id = $1 and tenant = $2 and ($3::text is null or exists (
    select from calls c where c.call_id = a.call_id and c.tenant = $2 and ${seenSql('$3', '$4')}
  ))`

const withdrawSql = `
  delete from artifacts a
  where a.call_id = $1 and a.fence = 0 and not exists (select from calls c where c.call_id = a.call_id)
  returning a.digest`

/**
 * A redriven call has no row for its payload, which belongs to the first call. The other file of fence 0 is the one
 * that approvers see.
 */
const spendSql = `
  with spent as (
    update calls c set payload_ref = null from calls was
    where c.call_id = $1 and was.call_id = c.call_id and c.payload_ref is not null
      and exists (select from results r where r.call_id = c.call_id)
      and not exists (select from dead_letters d where d.call_id = c.call_id)
    returning c.call_id, was.payload_ref as digest
  ), gone as (
    delete from artifacts a using spent s where a.call_id = s.call_id and a.fence = 0 and a.name = 'payload.json'
  )
  select digest from spent`
