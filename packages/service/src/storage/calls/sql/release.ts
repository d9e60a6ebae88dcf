import type { Database } from '../../databases/database.ts'
import type { Released } from '../call-store.ts'
import { heldSql, holderColumns, inOrder } from './holders.ts'

/**
 * A call that needs a tool is kept for workers that have it, by a label; its first delay counts while it needs the same.
 * A call that is asked comes back at its deadline, if that is sooner, and one that its caller has cancelled at once: then
 * there is nothing left to ask or to wait for.
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
    (select pg_notify('gantry_ready', '') where exists (select from back where lane = 'ready')) as told,
    (select pg_notify('gantry_needs', '') where exists (select from back where needs is not null)) as wanted`

export async function release(database: Database, holders: readonly Released[]): Promise<void> {
  if (holders.length === 0) return
  const rows = inOrder(holders).map(({ callId, fence, delayMs = 0, asked = false, counts = '', needs = null }) => {
    return { call_id: callId, fence, delay_ms: delayMs, asked, counts, needs }
  })
  await database.query(releaseSql, [JSON.stringify(rows)])
}
