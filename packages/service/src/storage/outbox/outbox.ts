import type { CallKind, CallState } from '@gantry/contract'
import type { ReplyAddress } from '../calls/call-store.ts'
import { inTime } from '../calls/sql/leases.ts'
import type { Queries } from '../databases/database.ts'

/** Something to be sent, with the right to send it until the lease is over. */
export interface OutboxItem {
  readonly id: number
  /** Empty when it is about no call. */
  readonly callId: string
  readonly tenant: string
  /** How it is to be sent: the outcome of a call to a URL or to a broker, or a message that is ready. */
  readonly kind: 'callback' | 'reply' | 'message'
  readonly target: string
  /** The message, or the address of one more who wants the answer. */
  readonly body?: string
  /** Whom the call answers. */
  readonly reply?: ReplyAddress
  /** How often it was taken, this time included. */
  readonly tries: number
  /** What it is about; absent when the call is no longer kept. */
  readonly call?: { readonly kind: CallKind; readonly tool: string; readonly state: CallState }
}

/**
 * What is to be sent, in the table `outbox`; the outcome of a call puts it there.
 *
 * An item is *due* from its time on. `claim` leases it and counts the try. Its holder says that it was *sent*, or is to be
 * tried *later*, or has *failed* for good, which puts it into the dead letters. A holder who dies lets the lease run out,
 * and the item is due again. Only the holder of the newest lease is heard.
 * - Order: none between items. A call has one item for each target, so that there is nothing to mix up.
 * - Concurrency: any number of processes; no item is leased to two at a time.
 */
export interface Outbox {
  /** The items that are due longest; none for the targets and of the tenants in `except`, which have enough. */
  claim(
    max: number,
    leaseMs: number,
    except?: { readonly targets?: readonly string[]; readonly tenants?: readonly string[] },
  ): Promise<readonly OutboxItem[]>
  sent(items: readonly Pick<OutboxItem, 'id' | 'tries'>[]): Promise<void>
  later(item: OutboxItem, delayMs: number, error: string): Promise<void>
  /** As `later`, without counting the try: it says nothing of the item. */
  postpone(item: OutboxItem, delayMs: number, error: string): Promise<void>
  /** Hands an item back as if it had not been taken. */
  release(item: OutboxItem): Promise<void>
  /** Gives up; in the same statement the dead letter is written. */
  fail(item: OutboxItem, error: string): Promise<void>
}

/** `notAfter` is the time of the database after which a claim that is sent now takes nothing; absent, there is none. */
export function outboxRecords(database: Queries, notAfter?: () => number): Outbox {
  return {
    async claim(max, leaseMs, { targets = [], tenants = [] } = {}) {
      const except = [JSON.stringify(targets), JSON.stringify(tenants)]
      const rows = await database.query<ClaimedRow>(claimSql, [max, leaseMs, ...except, notAfter?.() ?? null])
      return rows.map(itemOf)
    },
    async sent(items) {
      await database.query(sentSql, [JSON.stringify(items.map(({ id, tries }) => ({ id, tries })))])
    },
    async later({ id, tries }, delayMs, error) {
      await database.query(laterSql(0), [id, tries, delayMs, error])
    },
    async postpone({ id, tries }, delayMs, error) {
      await database.query(laterSql(1), [id, tries, delayMs, error])
    },
    async release({ id, tries }) {
      await database.query(`update outbox set tries = tries - 1, lease_until = null ${held}`, [id, tries])
    },
    async fail({ id, tries }, error) {
      await database.query(failSql, [id, tries, error])
    },
  }
}

/** The dead letter of an item is named after it, so that a redrive finds the item, and a second failure the letter. */
export const letterPrefix = 'callback-'

type ClaimedRow = {
  id: number
  call_id: string | null
  tenant: string
  kind: OutboxItem['kind']
  body: string | null
  reply: string | null
  target: string
  tries: number
  call_kind: CallKind | null
  tool: string | null
  status: CallState | null
}

function itemOf(row: ClaimedRow): OutboxItem {
  const { id, call_id: callId, tenant, kind, target, tries, body, reply, call_kind, tool, status } = row
  const item = {
    ...{ id, callId: callId ?? '', tenant, kind, target, tries },
    ...(body === null ? {} : { body }),
    ...(reply === null ? {} : { reply: JSON.parse(reply) as ReplyAddress }),
  }
  if (call_kind === null || tool === null || status === null) return item
  return { ...item, call: { kind: call_kind, tool, state: status } }
}

/** The count of tries tells one lease from another. */
const held = 'where id = $1 and tries = $2 and sent_at is null and failed_at is null'

const laterSql = (uncounted: number): string => `
  update outbox set tries = tries - ${uncounted}, next_at = now() + $3 * interval '1 millisecond', lease_until = null,
    last_error = $4 ${held}`

const claimSql = `
  with due as (
    select o.id from outbox o
    where o.sent_at is null and o.failed_at is null and o.next_at <= now()
      and (o.lease_until is null or o.lease_until <= now())
      and o.target <> all (array(select json_array_elements_text($3::json)))
      and o.tenant <> all (array(select json_array_elements_text($4::json)))
      and ${inTime(5)}
    order by o.next_at
    limit $1
    for update of o skip locked
  ), claimed as (
    update outbox o set tries = o.tries + 1, lease_until = now() + $2 * interval '1 millisecond'
    from due where o.id = due.id
    returning o.id, o.call_id, o.tenant, o.kind, o.target, o.tries, o.body
  )
  select o.*, c.kind as call_kind, c.tool, c.reply, r.status
  from claimed o
  left join calls c on c.call_id = o.call_id
  left join results r on r.call_id = o.call_id
  order by o.id`

// What went over a broker need not be shown to anybody; a named message stays, so that it is not sent a second time.
const sentSql = `
  with d as (
    select * from json_to_recordset($1::json) as d(id bigint, tries integer)
  ), gone as (
    delete from outbox o using d
    where o.id = d.id and o.tries = d.tries and o.sent_at is null and o.failed_at is null
      and o.kind <> 'callback' and o.item is null
  )
  update outbox o set sent_at = now(), lease_until = null, last_error = null,
    body = case when o.kind = 'message' then null else o.body end
  from d
  where o.id = d.id and o.tries = d.tries and o.sent_at is null and o.failed_at is null
    and (o.kind = 'callback' or o.item is not null)`

// A letter that was redriven and comes back is open again.
const failSql = `
  with failed as (
    update outbox set failed_at = now(), lease_until = null, last_error = $3::text ${held}
    returning id, call_id, tenant, tries, kind
  )
  insert into dead_letters (id, tenant, call_id, source, reason, code, tool, deliveries)
  select '${letterPrefix}' || f.id, f.tenant, f.call_id, f.kind, $3::text, 'BACKEND_FAILED', c.tool, f.tries
  from failed f
  left join calls c on c.call_id = f.call_id
  on conflict (id) do update set
    reason = excluded.reason, deliveries = excluded.deliveries, created_at = now(),
    redriven_at = null, redriven_by = null, redriven_as = null, discarded_at = null, discarded_by = null`
