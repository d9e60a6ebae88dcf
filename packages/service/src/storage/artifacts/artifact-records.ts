import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type ArtifactRef, ToolError } from '@gantry/contract'
import type { StoredQuotas } from '../../config/tenant-limits.ts'
import type { Holder } from '../calls/call-store.ts'
import type { Database } from '../databases/database.ts'
import { type Reader, seenSql, seenValues, tenantOf } from '../reader.ts'
import { removeUnnamed } from '../retention.ts'
import type { ArtifactStore, ByteRange, PutOptions } from './artifact-store.ts'

/** Whose a file is, and what it is called. */
export interface ArtifactAbout {
  readonly tenant: string
  /** The caller, whose quota it counts for. */
  readonly principal: string
  /** The attempt that made it; fence 0 for what came with the call. */
  readonly holder: Holder
  readonly name: string
  readonly mimeType: string
}

export interface StorageOptions {
  /** Nothing is limited when absent. */
  readonly quotas?: StoredQuotas
  /** Hears of each file beyond a quota. */
  readonly refused?: (refusal: Pick<ArtifactAbout, 'tenant' | 'principal'> & { readonly scope: Scope }) => void
}

/** An artifact that is being read. */
export interface OpenArtifact {
  readonly artifact: ArtifactRef
  readonly content: Readable
}

/**
 * Files of calls: content in the artifact store, and a row in the table `artifacts` that says whose it is. Every file has
 * a row, written once the file is there; a file whose last row goes, goes too.
 * - Tenants: an id of another tenant, or of a call that its reader does not see, is NOT_FOUND, like one that never was.
 * - Errors: the database's and the artifact store's; a STORE_UNAVAILABLE of `keep` that is the latter's has
 *   `details.artifacts`. A file that a row names and the store has lost is STORE_UNAVAILABLE, not to be tried again.
 *   LIMIT_EXCEEDED with `details.scope` when the tenant or the principal has no room for one more file. The quota is exact:
 *   it is checked with the row, however many files come at once; a file counts until its row goes, and the bytes of the
 *   same content count once.
 */
export interface Artifacts {
  /** Durable when it resolves. */
  keep(content: Uint8Array, about: ArtifactAbout, options: PutOptions): Promise<ArtifactRef>
  find(id: string, reader: Reader): Promise<ArtifactRef>
  open(id: string, reader: Reader, range: ByteRange | undefined, signal: AbortSignal): Promise<OpenArtifact>
  /** A signed address of the content in its store, for a while; undefined when the store has none. */
  locate(id: string, reader: Reader, expiresMs: number, signal: AbortSignal): Promise<string | undefined>
  /** A whole file by its digest, for those who have it from a row of their own. */
  content(digest: string, signal: AbortSignal): Promise<Readable>
  /** Removes the arguments of a call that was not admitted; those of one that was stay. */
  withdraw(callId: string): Promise<void>
  /**
   * Removes the arguments of a call that has ended and needs them no more. Those of a call without a recorded outcome, and
   * of one among the dead letters, stay.
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
      // Before the content is written: a caller without room must not fill the store with what is refused then. Content
      // that counts already needs no room, which only its digest can tell.
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
      // Another call's last row of the same content may have gone in between, and the file with it. Now that there is a
      // row again, nobody will remove the file.
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

/** Off the main thread, because files may be large. */
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

/** Whether the quota of an owner of files is what refused one. */
export function isOverQuota(error: unknown): error is ToolError {
  return ToolError.is(error) && error.code === 'LIMIT_EXCEEDED' && error.details?.scope !== undefined
}

type FoundRow = { name: string; mime_type: string; bytes: number; digest: string }

/** Whether the artifact store is what failed, rather than the database. */
export function isArtifactsAway(error: unknown): error is ToolError {
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

/** A row names a file that is not there: the store has lost it, and no repeat brings it back. */
function missing(cause: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', 'The file is no longer in the artifact store.', { cause, retryable: false })
}

function isId(id: string): boolean {
  return /^art_[0-9a-f]{32}$/.test(id)
}

const longestName = 200

/** A name that came from a tool, without what could do harm where it is shown or stored. */
function plainName(name: string): string {
  return (
    name
      .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
      .slice(-longestName)
      .toWellFormed() || 'file'
  )
}

/** A media type that came from a tool, without its parameters; what does not look like one is bytes. */
function plainType(type: string): string {
  const plain = (type.split(';', 1)[0] ?? '').trim().toLowerCase()
  return /^[a-z0-9][\w.+-]{0,63}\/[a-z0-9][\w.+-]{0,127}$/.test(plain) ? plain : 'application/octet-stream'
}

/** Retention takes the lock of the digest, alone, while it looks for rows that name it and removes the file. */
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
 * A call that was redriven has no row for its arguments, which belong to the first one. Another file of fence 0 is what an
 * approver was shown.
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
