import type { Database } from '../../databases/database.ts'
import { type UnrunCall, unrunEnding } from '../unrun.ts'
import { endUnrun } from './finish.ts'

/**
 * $1: the call; $2: its tenant. A call that is there and not in the queue has ended. A chain or a program that was
 * handed out before may have run in part; when it waits for a person, or sleeps, whoever claims it next ends it, so that it
 * must not wait any longer, and needs no tool for that.
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
    (select pg_notify('gantry_cancel', $1) where a.held) as told,
    (select resume_call($1) where a.run and a.lane = 'asked') as resumed
  from wanted c left join asked a on true`

type Asked = { [K in keyof UnrunCall]: UnrunCall[K] } & { at: Date; run: boolean | null }

/**
 * Two statements when nobody works on the call, because the outcome is made here. Whoever claims it between them is
 * told, because the first statement has said that it is to be cancelled; then the second does nothing.
 */
export async function cancel(
  database: Database,
  callId: string,
  tenant: string,
): Promise<'ended' | 'asked' | 'finished' | 'absent'> {
  if (!isText(callId) || !isText(tenant)) return 'absent'
  const [row] = await database.query<Asked>(cancelSql, [callId, tenant])
  if (row === undefined) return 'absent'
  if (row.run === null) return 'finished'
  if (row.run) return 'asked'
  const ended = await endUnrun(database, [unrunEnding(row, 'CANCELLED', row.at)])
  return ended.length > 0 ? 'ended' : 'asked'
}

/** Whether SQL text can hold it; what it cannot hold is no call's id. */
function isText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}
