import type { Database } from '../../databases/database.ts'
import { type UnrunCall, unrunEnding } from '../call-facts.ts'
import type { Reclaimed, ReclaimOptions } from '../call-store.ts'
import { endUnrun } from './finish.ts'

/**
 * $1: how many of each; $2: which leases go; $3: the time after which none goes, or null. The server may start a
 * statement long after it was sent, when it stood still meanwhile: then no holder could renew its lease. What another
 * process works on is left to it. The fence of an expired lease stays, so that a late holder may still finish the call
 * until it is claimed again. A call whose tool no worker offered in time can be claimed by any worker, which ends it;
 * `needs` still names the tool. `idle` repairs slots that are free although calls wait for them, because a statement
 * was interrupted.
 */
const reclaimSql = `
  with recursive expired as materialized (
    select call_id, fence, worker, claimed_at from queue
    where lease_until < case
      when $2 = 'none' or now() > to_timestamp($3::float8 / 1000) then '-infinity'
      when $2 = 'all' then 'infinity'
      else now()
    end
    order by lease_until limit $1
    for update skip locked
  ), lost as (
    update queue set lease_until = null, lost = lost + 1, deaths = deaths + begun::integer, begun = false
    where call_id = any (array(select call_id from expired))
    returning call_id
  ), tried as (
    insert into attempts (call_id, fence, worker, outcome, started_at)
    select call_id, fence, worker, 'lost', claimed_at from expired
  ), noted as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    select c.tenant, c.principal, e.call_id, e.fence, 'lost', c.tool, e.worker
    from expired e, lateral (select tenant, principal, tool from calls where call_id = e.call_id offset 0) c
  ), due as materialized (
    select call_id from queue where lane in ('later', 'asked') and run_at <= now()
    order by run_at limit $1
    for update skip locked
  ), needed as (
    (select needs, 1 as n from queue where needs is not null order by needs limit 1)
    union all
    select next.needs, k.n + 1 from needed k, lateral (
      select needs from queue where needs > k.needs order by needs limit 1
    ) next
    where k.n < 1000
  ), unmet as materialized (
    select call_id from needed k, lateral (
      select call_id, lane, lease_until, run_at, placement from queue where needs = k.needs offset 0 for update skip locked
    ) q
    where q.lane = 'ready' and q.lease_until is null and q.run_at <= now() and q.placement ? ('needs:' || k.needs)
    limit $1
  ), promoted as (
    update queue set lane = case when lane = 'ready' or slot_key is null then 'ready' else 'held' end,
      placement = case when needs is null then placement else nullif(placement - ('needs:' || needs), '{}') end
    where call_id = any (array(select call_id from due union all select call_id from unmet))
    returning slot_key
  ), keys as (
    (select slot_key, slot_limit from queue where lane = 'held' order by slot_key, id limit 1)
    union all
    select next.* from keys k, lateral (
      select slot_key, slot_limit from queue where lane = 'held' and slot_key > k.slot_key order by slot_key, id limit 1
    ) next
  ), idle as (
    select slot_key from keys k
    where slot_limit > (select count(*) from queue q where q.slot_key = k.slot_key and q.lane = 'ready')
  ), overdue as (
    select q.call_id as "callId", q.fence, q.deliveries, q.needs, c.kind, c.tool
    from (
      select call_id, fence, deliveries, needs from queue
      where deadline < now() and lease_until is null and lost = 0
      order by deadline limit $1
    ) q, lateral (select kind, tool from calls where call_id = q.call_id offset 0) c
    where c.kind = 'call' or q.deliveries = 0
  )
  select
    (select coalesce(json_agg(call_id), '[]') from lost)::text as lost,
    (select count(*) from promoted)::integer as promoted,
    (select coalesce(json_agg(o), '[]') from overdue o)::text as overdue,
    (select extract(epoch from min(run_at) - now()) * 1000 from queue where lane in ('later', 'asked') and run_at > now())::float8
      as next_ms,
    (select json_agg(needs) from needed)::text as wanted,
    now() as at,
    (select fill_slots(array_agg(slot_key)) from (
      select slot_key from promoted where slot_key is not null union all select slot_key from idle
    ) freed) as filled,
    (select pg_notify('gantry_ready', '') where exists (select from lost) or exists (select from promoted)) as notified`

type ReclaimedRow = {
  lost: string
  promoted: number
  overdue: string
  next_ms: number | null
  wanted: string | null
  at: Date
}

/**
 * Needs two statements when a deadline passed, because the outcome is made in this process. The second checks that the
 * call is still as the first one read it.
 */
export async function reclaim(
  database: Database,
  { max, leases = 'expired', notAfter }: ReclaimOptions,
): Promise<Reclaimed> {
  const [row] = await database.query<ReclaimedRow>(reclaimSql, [max, leases, notAfter ?? null])
  if (row === undefined) return { lost: [], promoted: 0, expired: [] }
  const { lost, promoted, overdue, next_ms: nextMs, wanted, at } = row
  const unrun: readonly UnrunCall[] = JSON.parse(overdue)
  const expired = await endUnrun(
    database,
    unrun.map((call) => unrunEnding(call, 'TIMEOUT', at)),
  )
  const next = promoted === max ? { nextMs: 0 } : nextMs === null ? {} : { nextMs }
  return {
    lost: JSON.parse(lost),
    promoted,
    expired,
    ...(wanted === null ? {} : { wanted: JSON.parse(wanted) }),
    ...next,
    ...(notAfter === undefined ? {} : { at: at.getTime() }),
  }
}

/**
 * $1: the call; $2: its tenant. A call that is there and not in the queue has ended. A chain or a program that was
 * claimed before may have run in part; when it waits for an approval, or sleeps, it becomes claimable at once, without
 * its tool, and the worker that claims it ends it.
 */
const cancelSql = `
  with wanted as (
    select call_id, kind, tool from calls where call_id = $1 and tenant = $2
  ), asked as (
    update queue set cancel_at = coalesce(cancel_at, now()),
      lane = case when lane = 'later' and deliveries > 0 then 'asked' else lane end,
      placement = case when needs is null then placement else nullif(placement - ('needs:' || needs), '{}') end,
      needs = null
    where call_id = $1 and tenant = $2
    returning fence, deliveries, lane, lease_until is not null as held, lease_until is not null or lost > 0
      or deliveries > 0 and (select kind from wanted) <> 'call' as run
  )
  select c.call_id as "callId", c.kind, c.tool, a.fence, a.deliveries, a.run, now() as at,
    (select pg_notify('gantry_cancel', $1) where a.held) as notified,
    (select resume_call($1) where a.run and a.lane = 'asked') as resumed
  from wanted c left join asked a on true`

type Asked = { [K in keyof UnrunCall]: UnrunCall[K] } & { at: Date; run: boolean | null }

/**
 * Needs two statements when the call is not leased, because the outcome is made in this process. A worker that claims
 * it in between sees the cancellation, which the first statement recorded; then the second does nothing.
 */
export async function cancel(
  database: Database,
  callId: string,
  tenant: string,
): Promise<'ended' | 'asked' | 'finished' | 'absent'> {
  if (!isSqlText(callId) || !isSqlText(tenant)) return 'absent'
  const [row] = await database.query<Asked>(cancelSql, [callId, tenant])
  if (row === undefined) return 'absent'
  if (row.run === null) return 'finished'
  if (row.run) return 'asked'
  const ended = await endUnrun(database, [unrunEnding(row, 'CANCELLED', row.at)])
  return ended.length > 0 ? 'ended' : 'asked'
}

/** Whether SQL text can contain it; otherwise it cannot be the id of a call. */
function isSqlText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}
