import type { Queries } from '../databases/database.ts'

/** Something to be sent besides what the outcome of a call puts into the outbox by itself. */
export interface PostedItem {
  /** What it is about; absent when it is about no call. */
  readonly callId?: string
  readonly tenant: string
  /** A message that is ready, or one more answer to a call. */
  readonly kind: 'message' | 'reply'
  readonly target: string
  /** The message, or the address of the answer; a text that SQL can hold. */
  readonly body: string
  /** Its name within the call: of items with the same one, only the first is kept. */
  readonly item?: string
  /** Not before the call has ended. */
  readonly waits?: boolean
}

/**
 * Puts items into the table `outbox`, for relays to send.
 *
 * An item that waits is due at infinity while its call is in the queue. Whoever ends the call makes it due. One that is
 * posted at the very moment in which the call ends may be missed by both, until somebody says `wakeWaiting`.
 * - Order: items of one `post` are numbered in their order; with whom they are sent in it is for the relay to say.
 * - Errors: the database's. A `post` whose outcome is unknown can be repeated where every item has a name.
 */
export interface OutboxPosts {
  /** Durable when it resolves. */
  post(items: readonly PostedItem[]): Promise<void>
  /** Makes up to `max` items due that wait although their call is no longer in the queue; answers how many. */
  wakeWaiting(max: number): Promise<number>
  /** Forgets the answers to these calls, because whoever ended them has given them. Those asked for besides stay. */
  answered(callIds: readonly string[]): Promise<void>
  /** Lets relays have the answers to these calls, because whoever ended them could not give them. */
  unanswered(callIds: readonly string[]): Promise<void>
  /** Those of the calls that have not ended. */
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

// The order of the rows is that of the list, and so is that of their ids.
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
  select count(*)::integer as woken, (select pg_notify('gantry_outbox', '') where exists (select from woken)) as told
  from woken`

const answeredSql = `delete from outbox where kind = 'reply' and body is null and call_id = any ($1::text[])`

// One that a relay has by now was taken once more, and is left to it.
const unansweredSql = `
  with left_over as (
    update outbox set lease_until = null
    where kind = 'reply' and body is null and tries = 1 and sent_at is null and call_id = any ($1::text[])
    returning id
  )
  select pg_notify('gantry_outbox', '') where exists (select from left_over)`

/** What has no outcome is in the queue, whatever it waits for. */
const unfinishedSql = 'select call_id from queue where call_id = any ($1::text[])'
