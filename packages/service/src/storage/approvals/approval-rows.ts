import type { ApprovalView } from '@gantry/contract'
import { cursorTime } from '../page-cursor.ts'
import { fitsSql } from '../reader.ts'

/** The row of an approval without its arguments. */
export type ApprovalRow = {
  id: string
  call_id: string
  inner_id: string
  tool: string
  principal: string
  fingerprint: string
  reason: string
  approvers: readonly string[]
  args_bytes: number
  args_sha256: string | null
  hidden: string
  asked_at: Date
  expires_at: Date
  state: ApprovalView['state']
  decided_by: string | null
  decided_at: Date | null
  decided_why: string | null
  decided_as: 'owner' | null
  place: string
}

const columns = `
  a.id, a.call_id, a.inner_id, a.tool, a.principal, a.fingerprint, a.reason, a.approvers, a.args_bytes, a.args_sha256,
  a.hidden, a.asked_at, a.expires_at, a.decided_by, a.decided_at, a.decided_why, a.decided_as,
  ${cursorTime('a.asked_at')} as place,
  case
    when a.decision = 'approve' then 'approved'
    when a.decision = 'deny' then 'denied'
    when a.decision = 'expired' or a.expires_at <= now() then 'expired'
    when q.call_id is null then 'void'
    else 'open'
  end as state`

/**
 * $1: the tenant; $2, $3: the cursor; $4: the limit; $5: whether to list all of the tenant; $6: else those of this
 * principal; $7: or for these roles; $8: name prefixes of their tools, null for all.
 */
function listOf(condition: string): string {
  return `
    select ${columns}
    from approvals a left join queue q on q.call_id = a.call_id
    where a.tenant = $1 and (a.asked_at, a.id) < ($2::timestamptz, $3::text)
      and ($5::boolean or a.principal = $6 or a.approvers ?| $7::text[])
      and ($8::text is null or ${fitsSql('a.tool', '$8')}) ${condition}
    order by a.asked_at desc, a.id desc
    limit $4`
}

export const listSql = {
  all: listOf(''),
  open: listOf('and a.decision is null and a.expires_at > now() and q.call_id is not null'),
} as const

/** The row of an approval with its arguments, and the state of the message that it was requested. */
export type FoundRow = ApprovalRow & {
  args: string | null
  args_ref: string | null
  files: string
  webhook_tries: number | null
  webhook_error: string | null
  webhook_sent: boolean | null
  webhook_failed: boolean | null
}

export const getSql = `
  select ${columns}, a.args, a.args_ref, a.files, o.tries as webhook_tries, o.last_error as webhook_error,
    o.sent_at is not null as webhook_sent, o.failed_at is not null as webhook_failed
  from approvals a
  left join queue q on q.call_id = a.call_id
  left join outbox o on o.call_id = a.call_id and o.item = 'approval:' || a.id || ':requested'
  where a.tenant = $1 and a.id = $2`

/** Whether the webhook has the message that the approval was requested; empty without a message. */
export function webhookOf(row: FoundRow): Pick<ApprovalView, 'webhook'> {
  const { webhook_tries: tries, webhook_error: error } = row
  if (tries === null) return {}
  const state = row.webhook_sent === true ? 'sent' : row.webhook_failed === true ? 'failed' : 'waiting'
  return { webhook: { state, tries, ...(error === null ? {} : { error }) } }
}

export function approvalOf(row: ApprovalRow): ApprovalView {
  const { decided_by: by, decided_at: at, decided_why: why, decided_as: as, args_sha256: argsSha256 } = row
  return {
    id: row.id,
    state: row.state,
    callId: row.call_id,
    ...(row.inner_id === row.call_id ? {} : { innerId: row.inner_id }),
    tool: row.tool,
    principal: row.principal,
    reason: row.reason,
    argsBytes: row.args_bytes,
    ...(argsSha256 === null ? {} : { argsSha256 }),
    ...(row.hidden === '[]' ? {} : { hidden: JSON.parse(row.hidden) }),
    fingerprint: row.fingerprint,
    approvers: row.approvers,
    askedAt: row.asked_at.toISOString(),
    expiresAt: row.expires_at.toISOString(),
    ...(by === null || at === null ? {} : { decided: { by, at: at.toISOString(), ...decidedHow(why, as) } }),
  }
}

function decidedHow(why: string | null, as: 'owner' | null): Pick<NonNullable<ApprovalView['decided']>, 'why' | 'as'> {
  return { ...(why === null ? {} : { why }), ...(as === null ? {} : { as }) }
}
