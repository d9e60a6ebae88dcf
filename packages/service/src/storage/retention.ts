import type { ServiceSettings } from '../config/service-settings.ts'
import type { ArtifactStore } from './artifacts/artifact-store.ts'
import type { SealKey } from './audit/entries.ts'
import { retireAudit } from './audit/sealer.ts'
import type { Database, Queries } from './databases/database.ts'
import type { PeriodicJob } from './periodic-jobs.ts'

interface RetentionOptions {
  /** How long a call is kept after it has ended. */
  readonly callsMs: number
  /**
   * How long the audit log is kept, which is a day at least, and a call whose dead letter is open;
   * longer than `callsMs`.
   */
  readonly auditMs: number
  /** Calls, or seals of the audit log, per transaction. */
  readonly batch?: number
  /** Keys of seals, which prove that retention removed entries of the audit log. */
  readonly auditKeys?: readonly SealKey[]
  readonly signal: AbortSignal
}

/** How much was removed. */
interface Removed {
  readonly calls: number
  readonly artifacts: number
  /** Files that no row references. */
  readonly files: number
  readonly deadLetters: number
  readonly audit: number
}

/**
 * Removes expired data, oldest first, in small transactions, until there is no more or the signal aborts. A call is
 * removed with its outcome, attempts, events, journal, outbox, approvals, dead letters and artifacts. A call without an
 * outcome is kept, and so is one with an unsent outbox item.
 * - Concurrency: any number of processes; each skips rows that another has locked.
 * - Errors: the database's and the artifact store's; the failed batch is not removed.
 */
export async function removeExpired(
  database: Database,
  store: ArtifactStore,
  { callsMs, auditMs, batch = 200, auditKeys = [], signal }: RetentionOptions,
): Promise<Removed> {
  const removed = { calls: 0, artifacts: 0, files: 0, deadLetters: 0, audit: 0 }
  const repeat = async (step: (queries: Queries) => Promise<number>): Promise<void> => {
    for (let found = batch; found >= batch && !signal.aborted; ) found = await database.transaction(step)
  }
  await repeat(async (queries) => {
    const ended = await queries.query<{ call_id: string }>(endedSql, [callsMs, auditMs, batch])
    if (ended.length === 0) return 0
    const [gone] = await queries.query<Gone>(callsSql, [JSON.stringify(ended.map(({ call_id }) => call_id))])
    if (gone === undefined) return 0
    const files = await removeUnnamed(queries, store, JSON.parse(gone.digests))
    removed.calls += gone.calls
    removed.deadLetters += gone.dead_letters
    removed.artifacts += gone.artifacts
    removed.files += files
    return ended.length
  })
  await repeat(async (queries) => {
    const orphans = await queries.query<{ digest: string }>(orphansSql, [batch])
    removed.files += await removeUnnamed(queries, store, [...new Set(orphans.map(({ digest }) => digest))])
    removed.artifacts += orphans.length
    return orphans.length
  })
  await repeat(async (queries) => {
    const deadLetters = await queries.query(lettersSql, [callsMs, auditMs, batch])
    removed.deadLetters += deadLetters.length
    return deadLetters.length
  })
  await repeat(async (queries) => (await queries.query(unsentSql, [callsMs, batch])).length)
  await repeat(async (queries) => {
    const rows = await retireAudit(queries, { keepMs: auditMs, most: batch, keys: auditKeys })
    removed.audit += rows
    // Seals have different numbers of entries, so there may be more as long as any was removed.
    return rows === 0 ? 0 : batch
  })
  return removed
}

/** Minimum age of an unreferenced file, because its put may not have written the row yet. */
const unreferencedMs = 86_400_000

/**
 * Removes files that no row references, because a process was lost before it wrote the row; for stores that can list
 * files. It reads every file name, so once a day is enough. Returns how many were removed.
 */
export async function removeUnreferencedFiles(
  database: Database,
  store: ArtifactStore,
  { batch = 200, signal }: Pick<RetentionOptions, 'batch' | 'signal'>,
): Promise<number> {
  let removed = 0
  let digests: string[] = []
  const removeBatch = async (): Promise<void> => {
    removed += await database.transaction((queries) => removeUnnamed(queries, store, digests))
    digests = []
  }
  for await (const digest of store.list?.(unreferencedMs) ?? []) {
    if (signal.aborted) return removed
    if (digests.push(digest) >= batch) await removeBatch()
  }
  await removeBatch()
  return removed
}

type Gone = { calls: number; dead_letters: number; artifacts: number; digests: string }

/**
 * Removes the files that no row references. A transaction that adds a row of the same content waits, and then finds the
 * file missing. When this transaction fails afterwards, its rows reference missing files; these rows belong to expired
 * calls and are removed next time.
 */
export async function removeUnnamed(
  queries: Queries,
  store: ArtifactStore,
  digests: readonly string[],
): Promise<number> {
  if (digests.length === 0) return 0
  const list = [JSON.stringify(digests)]
  await queries.query(lockSql, list)
  const unnamed = await queries.query<{ digest: string }>(unnamedSql, list)
  for (const { digest } of unnamed) await store.remove(digest)
  return unnamed.length
}

// Failed items without a call, with which they would be removed.
const unsentSql = `
  delete from outbox where id = any (array(
    select id from outbox
    where call_id is null and failed_at < now() - $1 * interval '1 millisecond' limit $2 for update skip locked
  ))
  returning id`

// An open dead letter keeps its call, because a redrive needs it.
const endedSql = `
  select r.call_id
  from results r
  where r.finished_at < now() - $1 * interval '1 millisecond'
    and not exists (
      select from outbox o where o.call_id = r.call_id and o.sent_at is null and o.failed_at is null
    )
    and (
      r.finished_at < now() - $2 * interval '1 millisecond'
      or not exists (
        select from dead_letters d where d.call_id = r.call_id and d.redriven_at is null and d.discarded_at is null
      )
    )
  order by r.finished_at
  limit $3
  for update of r skip locked`

const callsSql = `
  with gone as materialized (select call_id from json_array_elements_text($1::json) as call_id),
  results_gone as (delete from results where call_id in (select call_id from gone)),
  attempts_gone as (delete from attempts where call_id in (select call_id from gone)),
  events_gone as (delete from events where call_id in (select call_id from gone)),
  journal_gone as (delete from journal where call_id in (select call_id from gone)),
  outbox_gone as (delete from outbox where call_id in (select call_id from gone)),
  approvals_gone as (delete from approvals where call_id in (select call_id from gone)),
  letters_gone as (delete from dead_letters where call_id in (select call_id from gone) returning id),
  artifacts_gone as (delete from artifacts where call_id in (select call_id from gone) returning digest),
  calls_gone as (delete from calls where call_id in (select call_id from gone) returning payload_ref)
  select
    (select count(*) from calls_gone) as calls,
    (select count(*) from letters_gone) as dead_letters,
    (select count(*) from artifacts_gone) as artifacts,
    (
      select coalesce(json_agg(digest), '[]')::text
      from (select digest from artifacts_gone union select payload_ref from calls_gone where payload_ref is not null) as d
    ) as digests`

/** Artifacts of calls that were never admitted; an admitted call has its row long before this age. */
const orphansSql = `
  delete from artifacts where id in (
    select a.id from artifacts a
    where a.created_at < now() - interval '1 day' and not exists (select from calls c where c.call_id = a.call_id)
    order by a.created_at
    limit $1
    for update of a skip locked
  )
  returning digest`

/** Dead letters without a call, which are removed on their own. */
const lettersSql = `
  delete from dead_letters where id in (
    select d.id from dead_letters d
    where d.created_at < now() - $1 * interval '1 millisecond'
      and (
        d.redriven_at is not null or d.discarded_at is not null
        or d.created_at < now() - $2 * interval '1 millisecond'
      )
      and not exists (select from calls c where c.call_id = d.call_id)
    order by d.created_at
    limit $3
    for update of d skip locked
  )
  returning id`

/** Always in the same order, to avoid deadlocks. */
const lockSql = `
  select pg_advisory_xact_lock(key)
  from (
    select distinct hashtextextended(digest, 0) as key from json_array_elements_text($1::json) as digest order by key
  ) as keys`

// A redriven call references the payload of the first call, without a row of its own.
const unnamedSql = `
  select d.digest from json_array_elements_text($1::json) as d(digest)
  where not exists (select from artifacts a where a.digest = d.digest)
    and not exists (select from calls c where c.payload_ref = d.digest)`

const retentionMs = 10 * 60_000
const unreferencedFilesMs = 24 * 3_600_000
/** Delay of the first run, so that a process that restarts every hour cleans up too. */
const firstMs = 60_000

/** The periodic jobs that remove expired data and unreferenced files. */
export function retentionJobs(
  database: Database,
  files: ArtifactStore,
  settings: Pick<ServiceSettings, 'retentionMs' | 'auditRetentionMs'>,
  how: Pick<RetentionOptions, 'auditKeys' | 'signal'>,
): readonly PeriodicJob[] {
  const expire = (): Promise<unknown> =>
    removeExpired(database, files, { callsMs: settings.retentionMs, auditMs: settings.auditRetentionMs, ...how })
  return [
    { name: 'retention', everyMs: retentionMs, firstMs, work: expire },
    {
      name: 'unreferenced files',
      everyMs: unreferencedFilesMs,
      firstMs: 10 * firstMs,
      work: () => removeUnreferencedFiles(database, files, how),
    },
  ]
}
