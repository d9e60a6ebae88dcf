import { type Batch, createBatch } from './batch.ts'
import type { Holder } from './calls/call-store.ts'
import type { Queries } from './databases/database.ts'

/** What is known of an inner call: that it was about to begin, or its Result as JSON text. */
export type JournalEntry = { readonly state: 'begun' } | { readonly state: 'done'; readonly result: string }

/** An entry as it is to be; without a result it is about to begin. */
export interface JournalWrite {
  readonly entry: string
  readonly result?: string
}

/**
 * The inner calls of chains and programs, in the table `journal`, so that a later attempt does not repeat what an earlier one did.
 * - Concurrency: any number at once. Those of one holder that come together are written by one statement.
 * - Fences: every write answers whether its holder is the present one, and does nothing when he is not. While it is
 *   written nobody can claim the call, so that whoever claims it next reads what was written before.
 * - Errors: the database's. A write may be repeated by whoever does not know whether it was done.
 */
export interface JournalRecords {
  /** Says that an inner call is about to begin. */
  begin(holder: Holder, entry: string): Promise<boolean>
  /** Keeps what came of one; what is kept already stays. */
  done(holder: Holder, entry: string, result: string): Promise<boolean>
  /** Writes several entries by one statement, all or none; a result that is kept already stays. */
  writeAll(holder: Holder, entries: readonly JournalWrite[]): Promise<boolean>
  /** Takes back that one was about to begin, because it certainly did not. */
  forget(holder: Holder, entry: string): Promise<boolean>
  /** Everything there is of a call, by entry. */
  read(callId: string): Promise<ReadonlyMap<string, JournalEntry>>
}

interface Written {
  readonly entry: string
  readonly state: 'begun' | 'done'
  readonly result: string | null
}

/** Results may have megabytes, so few of them go into one statement. */
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
 * Gives a call all that another one did, and what that one had inherited itself, as part of the transaction that hands it
 * in: it needs the other one no more. What was begun there stays begun, so that it is found out or told as unknown here.
 * A call that an older version handed in has only its own entries; what it repeats is `origin`, which has the rest.
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

// The lock keeps others from claiming the call between the look at the fence and the commit.
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

// Calls one after the other have one entry at a time, which need not be read out of a list.
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

// No holder of the new call wrote it, so it has the fence of none.
const inheritSql = `
  insert into journal (call_id, entry, state, fence, result)
  select $1::text, entry, state, 0, result
  from (
    select distinct on (entry) entry, state, result from journal
    where call_id in ($2::text, $3::text)
    order by entry, call_id = $2::text desc
  ) earlier`
