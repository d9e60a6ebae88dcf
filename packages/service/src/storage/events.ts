import type { Report, StreamEvent } from '@gantry/contract'
import type { StoredReport } from './calls/call-store.ts'
import type { Queries, TenantReads } from './databases/database.ts'

/** One report of a running call, as it is stored. */
export type NewEvent = StoredReport

/** The events of a call after an id. */
export interface EventPage {
  readonly events: readonly (Report & Pick<StreamEvent, 'id' | 'callId'>)[]
  /** The id of the final event `done` or `error`, which is built from the result; absent while the call has not ended. */
  readonly endId?: number
}

/** The reports of running calls, in the table `events`. Errors are the database's. */
export interface EventRecords {
  /**
   * Adds events under their present lease; those under another fence are left out. Adding one again is harmless, so
   * that an append with an unknown outcome can be repeated. A holder whose lease is taken away at this moment may still
   * add one: it sorts before those of its successor, which has a higher fence.
   */
  append(events: readonly NewEvent[]): Promise<void>
  /** The last events of a call of this tenant, oldest first. */
  recent(callId: string, tenant: string, limit: number): Promise<EventPage['events']>
  /** The next events after an id; undefined when the tenant has no such call. */
  after(callId: string, tenant: string, id: number, limit: number): Promise<EventPage | undefined>
}

const idsPerFence = 1_000_000
/** Limit of reports per attempt; the id after them is for its end. */
export const mostReports = idsPerFence - 2

/** Ids increase over attempts: each fence has a million of them, and a fence is a 32-bit number, so all are exact. */
export function eventId(fence: number, n: number): number {
  return fence * idsPerFence + n
}

/** The id of the event that ends a call; after every report of the attempt that ended it. */
export function endEventId(fence: number): number {
  return eventId(fence, idsPerFence - 1)
}

export function eventRecords(database: Queries & TenantReads): EventRecords {
  return {
    async append(events) {
      const rows = events.map(({ callId, fence, id, event }) => ({ call_id: callId, fence, id, event }))
      await database.query(appendSql, [JSON.stringify(rows)])
    },
    async recent(callId, tenant, limit) {
      const rows = await database.asTenant(tenant).query<{ id: number; event: string }>(recentSql, [callId, limit])
      return rows.map((row) => ({ ...reportOf(row), id: row.id, callId })).reverse()
    },
    async after(callId, tenant, id, limit) {
      const rows = await database.asTenant(tenant).query<AfterRow>(afterSql, [callId, id, limit])
      const [first] = rows
      if (first === undefined) return undefined
      const events = rows.flatMap((row) => (row.id === null ? [] : [{ ...reportOf(row), id: row.id, callId }]))
      return first.fence === null ? { events } : { events, endId: endEventId(first.fence) }
    },
  }
}

type AfterRow = { fence: number | null } & ({ id: null; event: null } | { id: number; event: string })

function reportOf({ event }: { readonly event: string }): Report {
  return JSON.parse(event)
}

// Forces a lookup by id, whatever the statistics of the table are.
// A notification has fewer than 8,000 bytes; an empty payload makes every listener read.
const appendSql = `
  with added as (
    insert into events (call_id, id, event)
    select d.call_id, d.id, d.event
    from json_to_recordset($1::json) as d(call_id text, fence integer, id bigint, event text),
      lateral (select from queue q where q.call_id = d.call_id and q.fence = d.fence offset 0) as held
    on conflict do nothing
    returning call_id
  ), notified as (
    select string_agg(call_id, ',') as ids
    from (select call_id, row_number() over () / 100 as part from added group by call_id) as parts
    group by part
  )
  select pg_notify('gantry_event', case when octet_length(ids) < 8000 then ids else '' end) from notified`

const recentSql = 'select id, event from events where call_id = $1 order by id desc limit $2'

// One snapshot: when it has the result, it has every event before it.
const afterSql = `
  select r.fence, e.id, e.event
  from calls c
  left join results r on r.call_id = c.call_id
  left join lateral (
    select id, event from events where call_id = c.call_id and id > $2 order by id limit $3
  ) e on true
  where c.call_id = $1
  order by e.id`
