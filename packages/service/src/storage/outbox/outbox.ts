import type { CallKind, CallState } from '@gantry/contract'
import type { ReplyAddress } from '../calls/call-store.ts'
import { inTime } from '../calls/sql/leases.ts'
import type { Queries } from '../databases/database.ts'

/** A leased item of the outbox. */
export interface OutboxItem {
  readonly id: number
  /** Empty when it belongs to no call. */
  readonly callId: string
  readonly tenant: string
  /** The outcome of a call for a URL or a broker, a complete message, or news of an approval for the webhook. */
  readonly kind: 'callback' | 'reply' | 'message' | 'approval'
  readonly target: string
  /** The message, the address of an additional reply, or the name of an approval's news. */
  readonly body?: string
  /** The reply address of the call. */
  readonly reply?: ReplyAddress
  /** How often it was claimed, this time included. */
  readonly tries: number
  /** Its call; absent when the call was removed. */
  readonly call?: { readonly kind: CallKind; readonly tool: string; readonly state: CallState }
}

/**
 * Messages to be sent, in the table `outbox`; the outcome of a call puts them there.
 *
 * States of an item: `due`, `leased`, `sent`, `failed`
 *
 * - `due` → `leased`: `claim`, which counts the try.
 * - `leased` → `sent`: its holder has sent it.
 * - `leased` → `due`: its holder tries again later, or the lease expired.
 * - `leased` → `failed`: its holder gives it up; it becomes a dead letter.
 *
 * Only the holder of the newest lease can change an item.
 * - Order: none between items. A call has one item for each target, so that there is nothing to mix up.
 * - Concurrency: any number of processes; no item is leased to two at a time.
 */
export interface Outbox {
  /** Claims the items that are due longest, without those of targets and tenants in `except`. */
  claim(
    max: number,
    leaseMs: number,
    except?: { readonly targets?: readonly string[]; readonly tenants?: readonly string[] },
  ): Promise<readonly OutboxItem[]>
  sent(items: readonly Pick<OutboxItem, 'id' | 'tries'>[]): Promise<void>
  later(item: OutboxItem, delayMs: number, error: string): Promise<void>
  /** As `later`, without counting the try. */
  postpone(item: OutboxItem, delayMs: number, error: string): Promise<void>
  /** Releases an item without counting the try. */
  release(item: OutboxItem): Promise<void>
  /** Marks an item as failed and writes its dead letter, in one statement. */
  fail(item: OutboxItem, error: string): Promise<void>
}

/** `notAfter` returns the database time after which a claim that is sent now claims nothing; no limit when absent. */
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

/** Prefix of the dead letter's id, before the item's id, so that a redrive finds the item. */
export const deadLetterPrefix = 'callback-'

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
  const item: OutboxItem = {
    id,
    callId: callId ?? '',
    tenant,
    kind,
    target,
    tries,
    ...(body === null ? {} : { body }),
    ...(reply === null ? {} : { reply: JSON.parse(reply) }),
  }
  if (call_kind === null || tool === null || status === null) return item
  return { ...item, call: { kind: call_kind, tool, state: status } }
}

/** The number of tries identifies the lease. */
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

// A sent reply over a broker is deleted; a named message stays, so that it is not posted again.
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

// A redriven dead letter whose item fails again is open again.
const failSql = `
  with failed as (
    update outbox set failed_at = now(), lease_until = null, last_error = $3::text ${held}
    returning id, call_id, tenant, tries, kind
  )
  insert into dead_letters (id, tenant, call_id, source, reason, code, tool, deliveries)
  select '${deadLetterPrefix}' || f.id, f.tenant, f.call_id, f.kind, $3::text, 'BACKEND_FAILED', c.tool, f.tries
  from failed f
  left join calls c on c.call_id = f.call_id
  on conflict (id) do update set
    reason = excluded.reason, deliveries = excluded.deliveries, created_at = now(),
    redriven_at = null, redriven_by = null, redriven_as = null, discarded_at = null, discarded_by = null`

/** An outbox item other than the reply and callback that the outcome of a call adds. */
export interface PostedItem {
  /** Its call; absent when it belongs to none. */
  readonly callId?: string
  readonly tenant: string
  /** A complete message, an additional reply to a call, or news of an approval. */
  readonly kind: 'message' | 'reply' | 'approval'
  readonly target: string
  /** The message, the address of the reply, or the name of the news; must be valid SQL text. */
  readonly body: string
  /** Its name within the call; of items with the same name only the first is stored. */
  readonly item?: string
  /** Whether it is due only after the call has ended. */
  readonly waits?: boolean
}

/**
 * Puts items into the table `outbox`, for relays to send.
 *
 * An item that waits is due at infinity while its call is in the queue. The end of the call makes it due. One that is
 * posted at the very moment in which the call ends may be missed by both, until `wakeWaiting`.
 * - Order: items of one `post` are numbered in their order; the relay decides where they are also sent in it.
 * - Errors: the database's. A `post` whose outcome is unknown can be repeated where every item has a name.
 */
export interface OutboxPosts {
  /** Durable when it resolves. */
  post(items: readonly PostedItem[]): Promise<void>
  /** Makes up to `max` items due that wait although their call is no longer in the queue; answers how many. */
  wakeWaiting(max: number): Promise<number>
  /** Removes the replies to these calls, because the process that ended them has sent them. Further replies stay. */
  answered(callIds: readonly string[]): Promise<void>
  /** Leaves the replies to these calls to relays, because the process that ended them could not send them. */
  unanswered(callIds: readonly string[]): Promise<void>
  /** The calls among these that have not ended. */
  unfinished(callIds: readonly string[]): Promise<readonly string[]>
}

export function outboxPosts(database: Queries): OutboxPosts {
  return {
    async post(items) {
      if (items.length > 0) await database.query(postSql, [JSON.stringify(items.map(rowOf))])
    },
    async wakeWaiting(max) {
      const [row] = await database.query<{ woken: number }>(wakeSql, [max])
      return row?.woken ?? 0
    },
    async answered(callIds) {
      if (callIds.length > 0) await database.query(answeredSql, [callIds])
    },
    async unanswered(callIds) {
      if (callIds.length > 0) await database.query(unansweredSql, [callIds])
    },
    async unfinished(callIds) {
      const rows = await database.query<{ call_id: string }>(unfinishedSql, [callIds])
      return rows.map(({ call_id }) => call_id)
    },
  }
}

function rowOf({ callId, tenant, kind, target, body, item, waits = false }: PostedItem) {
  return { call_id: callId, tenant, kind, target, body, item, waits }
}

// Rows and ids have the order of the list.
const postSql = `
  with posted as (
    insert into outbox (call_id, tenant, kind, target, body, item, next_at)
    select call_id, tenant, kind, target, body, item,
      case when waits and exists (select from queue q where q.call_id = p.call_id) then 'infinity' else now() end
    from json_to_recordset($1::json) as p(
      call_id text, tenant text, kind text, target text, body text, item text, waits boolean)
    on conflict (call_id, item) where item is not null do nothing
    returning next_at
  )
  select pg_notify('gantry_outbox', '') where exists (select from posted where next_at <= now())`

const wakeSql = `
  with woken as (
    update outbox set next_at = now() where id = any (array(
      select o.id from outbox o
      where o.next_at = 'infinity' and not exists (select from queue q where q.call_id = o.call_id)
      limit $1
      for update of o skip locked
    ))
    returning id
  )
  select count(*)::integer as woken, (select pg_notify('gantry_outbox', '') where exists (select from woken)) as notified
  from woken`

const answeredSql = `delete from outbox where kind = 'reply' and body is null and call_id = any ($1::text[])`

// An item that a relay has claimed since has more tries, and is left to it.
const unansweredSql = `
  with left_over as (
    update outbox set lease_until = null
    where kind = 'reply' and body is null and tries = 1 and sent_at is null and call_id = any ($1::text[])
    returning id
  )
  select pg_notify('gantry_outbox', '') where exists (select from left_over)`

/** A call without an outcome is in the queue. */
const unfinishedSql = 'select call_id from queue where call_id = any ($1::text[])'
