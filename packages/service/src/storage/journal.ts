import { type Batch, createBatch } from './batch.ts'
import type { Holder } from './calls/call-store.ts'
import type { Queries } from './databases/database.ts'

/** An inner call that was about to begin, or its Result as JSON text. */
export type JournalEntry = { readonly state: 'begun' } | { readonly state: 'done'; readonly result: string }

/** An entry to write; without a result the inner call is about to begin. */
export interface JournalWrite {
  readonly entry: string
  readonly result?: string
}

/**
 * The inner calls of chains and programs, in the table `journal`, so that a later attempt does not repeat what an
 * earlier one did.
 * - Concurrency: any number at once. Those of one holder that come together are written by one statement.
 * - Fences: every write answers whether its lease is the present one, and does nothing when it is not. During a write
 *   the call cannot be claimed, so that the next holder reads what was written before.
 * - Errors: the database's. A write with an unknown outcome can be repeated.
 */
export interface JournalRecords {
  /** Records that an inner call is about to begin. */
  begin(holder: Holder, entry: string): Promise<boolean>
  /** Writes the result of an inner call; an existing result stays. */
  done(holder: Holder, entry: string, result: string): Promise<boolean>
  /** Writes several entries in one statement, all or none; existing results stay. */
  writeAll(holder: Holder, entries: readonly JournalWrite[]): Promise<boolean>
  /** Removes an entry whose inner call certainly did not begin. */
  forget(holder: Holder, entry: string): Promise<boolean>
  /** All entries of a call. */
  read(callId: string): Promise<ReadonlyMap<string, JournalEntry>>
}

interface Written {
  readonly entry: string
  readonly state: 'begun' | 'done'
  readonly result: string | null
}

/** Limit of entries per statement, because results can have megabytes. */
const together = 8

export function journalRecords(database: Queries): JournalRecords {
  const batches = new Map<string, Batch<Written, boolean>>()

  const write = async (holder: Holder, row: Written): Promise<boolean> => {
    const key = `${holder.fence} ${holder.callId}`
    const batch = batches.get(key) ?? createBatch((rows) => writeAll(database, holder, rows), { most: together })
    batches.set(key, batch)
    try {
      return await batch.add(row)
    } finally {
      if (batch.size === 0) batches.delete(key)
    }
  }
  return {
    begin: (holder, entry) => write(holder, { entry, state: 'begun', result: null }),
    done: (holder, entry, result) => write(holder, { entry, state: 'done', result }),
    async writeAll(holder, entries) {
      const rows = entries.map(({ entry, result }): Written => {
        return result === undefined ? { entry, state: 'begun', result: null } : { entry, state: 'done', result }
      })
      const [held] = await writeAll(database, holder, rows)
      return held === true
    },
    async forget({ callId, fence }, entry) {
      const [row] = await database.query<HeldRow>(forgetSql, [callId, fence, entry])
      return row?.held === true
    },
    async read(callId) {
      const rows = await database.query<JournalRow>('select entry, result from journal where call_id = $1', [callId])
      return new Map(rows.map(({ entry, result }) => [entry, entryOf(result)]))
    },
  }
}

/**
 * Copies the journal of another call, with what that call had inherited, as part of the transaction that submits this
 * one: it does not need the other call any more. What was begun there stays begun, so that its outcome is looked up, or
 * unknown. A call that an older version submitted has only its own entries; what it repeats is `origin`, which has the
 * rest.
 */
export async function inheritJournal(
  queries: Queries,
  { from, origin, to }: { readonly from: string; readonly origin: string; readonly to: string },
): Promise<void> {
  await queries.query(inheritSql, [to, from, origin])
}

type HeldRow = { readonly held: boolean }
type JournalRow = { readonly entry: string; readonly result: string | null }

function entryOf(result: string | null): JournalEntry {
  return result === null ? { state: 'begun' } : { state: 'done', result }
}

async function writeAll(
  database: Queries,
  { callId, fence }: Holder,
  rows: readonly Written[],
): Promise<readonly boolean[]> {
  const [one] = rows
  const [row] =
    one !== undefined && rows.length === 1
      ? await database.query<HeldRow>(writeOneSql, [callId, fence, one.entry, one.state, one.result])
      : await database.query<HeldRow>(writeSql, [callId, fence, JSON.stringify(rows)])
  return rows.map(() => row?.held === true)
}

// The lock prevents a claim of the call between the check of the fence and the commit.
const heldSql = 'held as (select call_id, fence from queue where call_id = $1 and fence = $2 for share)'

const endsStaySql = `
    on conflict (call_id, entry) do update
    set state = excluded.state, fence = excluded.fence, result = excluded.result
    where journal.state = 'begun'`

const writeSql = `
  with ${heldSql}, written as (
    insert into journal (call_id, entry, state, fence, result)
    select held.call_id, d.entry, d.state, held.fence, d.result
    from held cross join json_to_recordset($3::json) as d(entry text, state text, result text)
    ${endsStaySql}
  )
  select exists (select from held) as held`

// Sequential inner calls write one entry at a time, which needs no list.
const writeOneSql = `
  with ${heldSql}, written as (
    insert into journal (call_id, entry, state, fence, result)
    select held.call_id, $3::text, $4::text, held.fence, $5::text
    from held
    ${endsStaySql}
  )
  select exists (select from held) as held`

const forgetSql = `
  with ${heldSql}, gone as (
    delete from journal j using held
    where j.call_id = held.call_id and j.entry = $3 and j.state = 'begun'
  )
  select exists (select from held) as held`

// No lease of the new call wrote it, so its fence is 0.
const inheritSql = `
  insert into journal (call_id, entry, state, fence, result)
  select $1::text, entry, state, 0, result
  from (
    select distinct on (entry) entry, state, result from journal
    where call_id in ($2::text, $3::text)
    order by entry, call_id = $2::text desc
  ) earlier`
