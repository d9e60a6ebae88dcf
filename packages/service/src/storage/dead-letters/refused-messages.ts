import { createHash } from 'node:crypto'
import type { ErrorCode } from '@gantry/contract'
import { type Queries, storable } from '../databases/database.ts'

/** A message that did not become a call. */
export interface RefusedMessage {
  /** Whose the dead letter is, and what is to be sent: the sender's, or that of the source when he is not known. */
  readonly tenant: string
  /** The topic or the stream, and the place in it: together the name of the message. */
  readonly source: string
  readonly position: string
  readonly deliveries: number
  readonly code: ErrorCode
  readonly reason: string
  readonly tool?: string | undefined
  /** What was asked for, as far as it can be shown; with it the message becomes a dead letter. */
  readonly dead?: { readonly payload?: string }
  /** What is to be sent because of it. */
  readonly messages: readonly { readonly target: string; readonly body: string }[]
}

/**
 * Keeps the refusal of messages: the dead letter, where there is one, and what is to be sent, in one transaction.
 * One that comes again after that changes nothing but may be answered twice.
 */
export async function refuseMessages(database: Queries, refused: readonly RefusedMessage[]): Promise<void> {
  if (refused.length === 0) return
  const deadLetters = refused.filter(({ dead }) => dead !== undefined).map(letterOf)
  const messages = refused.flatMap(({ tenant, messages }) => messages.map((message) => ({ tenant, ...message })))
  await database.query(refuseSql, [JSON.stringify(deadLetters), JSON.stringify(messages)])
}

const refuseSql = `
  with buried as (
    insert into dead_letters (id, tenant, source, reason, code, tool, payload, deliveries)
    select id, tenant, source, reason, code, tool, payload, deliveries
    from json_to_recordset($1::json) as d(
      id text, tenant text, source text, reason text, code text, tool text, payload text, deliveries integer)
    on conflict (id) do nothing
  ), posted as (
    insert into outbox (tenant, kind, target, body)
    select tenant, 'message', target, body from json_to_recordset($2::json) as m(tenant text, target text, body text)
    returning id
  )
  select pg_notify('gantry_outbox', '') where exists (select from posted)`

function letterOf({ tenant, source, position, deliveries, code, reason, tool, dead }: RefusedMessage) {
  const id = `message-${createHash('sha256')
    .update(JSON.stringify([source, position]))
    .digest('hex')
    .slice(0, 32)}`
  return {
    ...{ id, tenant, source, deliveries, code },
    reason: storable(reason),
    tool: tool === undefined ? undefined : storable(tool.slice(0, 300)),
    payload: dead?.payload === undefined ? undefined : storable(dead.payload),
  }
}
