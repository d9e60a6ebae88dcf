import type { Database, Queries } from '../../databases/database.ts'
import type { Holder, Released } from '../call-store.ts'

/** Columns of a JSON list of holders. */
export const holderColumns = 'call_id text, fence integer'

/**
 * The queue rows that are leased under the fences in `d`, locked one by one in the order of `d`. `offset 0` forces a
 * lookup by key: other plans are cheaper while the queue is short or no call is leased, and a prepared plan stays when
 * that has changed.
 */
const heldSql = `
  held as materialized (
    select d.*, q.worker, q.claimed_at, q.slot_key
    from d, lateral (
      select worker, claimed_at, slot_key, lease_until from queue
      where call_id = d.call_id and fence = d.fence
      offset 0 for update
    ) q
    where q.lease_until is not null
  )`

/**
 * Removes duplicate holders and sorts them, so that statements that lock the same calls cannot deadlock.
 */
export function inOrder<H extends Holder>(holders: readonly H[]): H[] {
  const each = new Map(holders.map((holder) => [`${holder.fence} ${holder.callId}`, holder]))
  return [...each.values()].sort((a, b) => (a.callId < b.callId ? -1 : a.callId > b.callId ? 1 : a.fence - b.fence))
}

/** The sorted holders as JSON. */
function holdersJson(holders: readonly Holder[]): string {
  return JSON.stringify(inOrder(holders).map(({ callId, fence }) => ({ call_id: callId, fence })))
}

/** Also used in the transaction that decides an approval. */
export async function resume(queries: Queries, callId: string): Promise<void> {
  await queries.query('select resume_call($1)', [callId])
}

const beginSql = `
  with d as (select * from json_to_recordset($1::json) as d(${holderColumns})), ${heldSql}
  update queue set begun = true where call_id = any (array(select call_id from held)) returning call_id`

export async function begin(database: Database, holders: readonly Holder[]): Promise<readonly string[]> {
  if (holders.length === 0) return []
  const rows = await database.query<{ call_id: string }>(beginSql, [holdersJson(holders)])
  return rows.map(({ call_id }) => call_id)
}

const extendSql = `
  with d as (select * from json_to_recordset($1::json) as d(${holderColumns})), ${heldSql}
  update queue set lease_until = now() + $2::float8 * interval '1 millisecond'
  where call_id = any (array(select call_id from held))
  returning call_id, fence, cancel_at is not null as cancelled`

type Extended = { call_id: string; fence: number; cancelled: boolean }

export async function extend(
  database: Database,
  holders: readonly Holder[],
  leaseMs: number,
): Promise<{ lost: readonly string[]; cancelled: readonly string[] }> {
  if (holders.length === 0) return { lost: [], cancelled: [] }
  const rows = await database.query<Extended>(extendSql, [holdersJson(holders), leaseMs])
  const fences = new Map(rows.map(({ call_id, fence }) => [call_id, fence]))
  return {
    lost: holders.filter(({ callId, fence }) => fences.get(callId) !== fence).map(({ callId }) => callId),
    cancelled: rows.filter(({ cancelled }) => cancelled).map(({ call_id }) => call_id),
  }
}

const outcomesSql = `
  select d.call_id
  from json_to_recordset($1::json) as d(${holderColumns}), lateral (
    select from results where call_id = d.call_id and fence = d.fence offset 0
  ) r`

export async function outcomes(database: Database, holders: readonly Holder[]): Promise<readonly string[]> {
  if (holders.length === 0) return []
  const rows = await database.query<{ call_id: string }>(outcomesSql, [holdersJson(holders)])
  return rows.map(({ call_id }) => call_id)
}

/**
 * A call that needs a tool gets a label, so that only workers with the tool claim it; its first delay applies while the
 * need is the same. A call that waits for an approval becomes claimable at its deadline, if that is sooner, and a
 * cancelled one at once.
 */
const releaseSql = `
  with d as (select * from json_to_recordset($1::json) as d(${holderColumns}, delay_ms float8, asked boolean, counts text, needs text)), ${heldSql},
  back as (
    update queue q set lease_until = null, begun = false, (lane, run_at, faults, rests, needs, placement) = (
      select
        case
          when h.asked then case when q.resumed = q.fence or q.cancel_at is not null then q.lane else 'asked' end
          when h.delay_ms > 0 and q.cancel_at is null then 'later'
          else q.lane
        end,
        case when h.needs = q.needs then q.run_at else
          least(now() + h.delay_ms * interval '1 millisecond', case when h.asked then q.deadline end)
        end,
        q.faults + (h.counts = 'fault')::integer,
        q.rests + (h.counts = 'rest')::integer,
        case when q.cancel_at is null then h.needs end,
        case
          when coalesce(q.needs, h.needs) is null then q.placement
          else nullif(
            coalesce(q.placement, '{}') - coalesce('needs:' || q.needs, '')
              || case when h.needs is null or q.cancel_at is not null then '{}' else jsonb_build_object('needs:' || h.needs, '') end,
            '{}')
        end
      from held h where h.call_id = q.call_id
    )
    where call_id = any (array(select call_id from held))
    returning q.slot_key, q.lane, q.needs
  ), tried as (
    insert into attempts (call_id, fence, worker, outcome, started_at)
    select call_id, fence, worker, 'released', claimed_at from held
  ), noted as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    select c.tenant, c.principal, h.call_id, h.fence, 'released', c.tool, h.worker
    from held h, lateral (select tenant, principal, tool from calls where call_id = h.call_id offset 0) c
  )
  select
    (select fill_slots(array_agg(slot_key)) from back where lane <> 'ready' and slot_key is not null) as filled,
    (select pg_notify('gantry_ready', '') where exists (select from back where lane = 'ready')) as notified,
    (select pg_notify('gantry_needs', '') where exists (select from back where needs is not null)) as wanted`

export async function release(database: Database, holders: readonly Released[]): Promise<void> {
  if (holders.length === 0) return
  const rows = inOrder(holders).map(({ callId, fence, delayMs = 0, asked = false, counts = '', needs = null }) => {
    return { call_id: callId, fence, delay_ms: delayMs, asked, counts, needs }
  })
  await database.query(releaseSql, [JSON.stringify(rows)])
}

/**
 * Whether a statement starts before the time in its parameter `$n`, in milliseconds since 1970; true when that is null.
 * A suspended server starts a statement long after it was sent, when its client may have stopped waiting and would not
 * know of its leases. `now()` is the time of that start.
 */
export function inTime(n: number): string {
  return `($${n}::float8 is null or now() <= to_timestamp($${n}::float8 / 1000))`
}
