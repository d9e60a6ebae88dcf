import { letterPrefix } from '../outbox/outbox.ts'
import { seenLettersSql } from './dead-letter-reader.ts'

const place = `to_char(d.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place`

const columns = `
  d.id, d.call_id, d.source, d.reason, d.code, d.tool, d.deliveries, d.created_at, ${place},
  d.redriven_at, d.redriven_by, d.redriven_as, d.discarded_at, d.discarded_by`

/** $1: the tenant; $2, $3: the place before; $4: how many letters. No row when there is none. */
export const stretchSql = `
  with near as materialized (
    select d.id, d.tool, d.created_at from dead_letters d
    where d.tenant = $1 and (d.created_at, d.id) < ($2::timestamptz, $3::text)
    order by d.created_at desc, d.id desc
    limit $4
  )
  select d.id, ${place}, (select count(*)::integer from near) as count,
    (select coalesce(json_agg(distinct tool) filter (where tool is not null), '[]')::text from near) as tools
  from near d
  order by d.created_at, d.id
  limit 1`

/** $1: the tenant; $2, $3: the place before; $4: how many; $5 to $7: of `seenLetters`; $8, $9: the last place, or null. */
export const listSql = `
  select ${columns}
  from dead_letters d
  left join calls c on c.call_id = d.call_id
  where d.tenant = $1 and (d.created_at, d.id) < ($2::timestamptz, $3::text)
    and ($8::timestamptz is null or (d.created_at, d.id) >= ($8::timestamptz, $9::text))
    and ${seenLettersSql('$5', '$6', '$7')}
  order by d.created_at desc, d.id desc
  limit $4`

export const getSql = `
  select ${columns}, d.payload, to_json(c) as call
  from dead_letters d
  left join calls c on c.call_id = d.call_id
  where d.id = $1 and d.tenant = $2`

export const lockSql = `
  select call_id, redriven_as, discarded_at from dead_letters where id = $1 and tenant = $2 for update`

// Only a redrive names its letter, so that no call of the same key is taken for one.
export const handedInSql = `
  select call_id from calls where tenant = $1 and principal = $2 and idem_key = 'dlq:' || $3::text and redrive_of = $3`

export const redrivenSql = `
  with redriven as (
    update dead_letters set redriven_at = now(), redriven_by = $3, redriven_as = $4
    where id = $1 and tenant = $2 and redriven_at is null
    returning id, call_id, tool
  )
  insert into audit (tenant, principal, call_id, fence, phase, tool, details)
  select $2, $3, $4, 0, 'redrive', coalesce(tool, ''), json_build_object('letter', id, 'callId', call_id)::text
  from redriven`

export const discardSql = `
  with discarded as (
    update dead_letters set discarded_at = now(), discarded_by = $3
    where id = $1 and tenant = $2 and redriven_at is null and discarded_at is null
    returning id, call_id, tool
  )
  insert into audit (tenant, principal, call_id, fence, phase, tool, details)
  select $2, $3, coalesce(call_id, ''), 0, 'discard', coalesce(tool, ''), json_build_object('letter', id)::text
  from discarded`

// The letter is locked first, so that of two who redrive it, or of one who discards it, only the first does something.
export const sendAgainSql = `
  with letter as (
    select id, call_id, tool from dead_letters
    where id = $1 and tenant = $2 and redriven_at is null and discarded_at is null
    for update
  ), back as (
    update outbox o set tries = 0, failed_at = null, next_at = now(), lease_until = null
    from letter l
    where o.id = substr(l.id, ${letterPrefix.length + 1})::bigint
    returning l.id, coalesce(l.call_id, l.id) as call_id, l.tool
  ), redriven as (
    update dead_letters d set redriven_at = now(), redriven_by = $3, redriven_as = b.call_id
    from back b where d.id = b.id
  ), noted as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, details)
    select $2, $3, call_id, 0, 'redrive', coalesce(tool, ''), json_build_object('letter', id)::text from back
  )
  select call_id, pg_notify('gantry_outbox', '') from back`
