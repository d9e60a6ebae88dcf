import type { CallKind, DeadLetter, EffectClass, Identity, Json } from '@gantry/contract'
import type { ToolVisibility } from '@gantry/core'
import { createRedactor, isSecretKey, type RedactionMark } from '@gantry/core/internal/json/redact'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { downstreamKey } from '../calls/call-facts.ts'
import type { AdmittedCall } from '../calls/call-store.ts'
import { letterPrefix } from '../outbox/outbox.ts'

/** A dead letter as it is read; of the call only when one letter is asked for. */
export type DeadLetterRow = {
  id: string
  call_id: string | null
  source: string
  reason: string
  code: string
  tool: string | null
  deliveries: number
  created_at: Date
  /** When it was created, in the form of a cursor. */
  place: string
  redriven_at: Date | null
  redriven_by: string | null
  redriven_as: string | null
  discarded_at: Date | null
  discarded_by: string | null
  payload?: string | null
  call?: CallRow | null
}

/** The call of a letter, as the database writes it as JSON. */
type CallRow = {
  call_id: string
  idem_key: string | null
  effect_key: string | null
  kind: AdmittedCall['kind']
  principal: string
  identity: string
  fingerprint: string
  tool: string
  effect: EffectClass
  payload: string | null
  payload_ref: string | null
  payload_bytes: number
  timeout_ms: number | null
  callback: string | null
  reply: string | null
  trace: string | null
  origin: string | null
}

/** A letter as others see it; with a mark for what is hidden, also what was asked for. */
export function deadLetterOf(row: DeadLetterRow, mark?: RedactionMark): DeadLetter {
  const payload = row.payload ?? row.call?.payload ?? undefined
  return {
    id: row.id,
    source: row.source,
    reason: row.reason,
    code: row.code,
    deliveries: row.deliveries,
    createdAt: row.created_at.toISOString(),
    ...(row.call_id === null ? {} : { callId: row.call_id }),
    ...(row.tool === null ? {} : { tool: row.tool }),
    ...(payload === undefined || mark === undefined ? {} : { payload: shownPayload(payload, mark) }),
    ...(row.redriven_at === null
      ? {}
      : { redriven: { at: row.redriven_at.toISOString(), by: `${row.redriven_by}`, callId: `${row.redriven_as}` } }),
    ...(row.discarded_at === null
      ? {}
      : { discarded: { at: row.discarded_at.toISOString(), by: `${row.discarded_by}` } }),
  }
}

/**
 * What is handed in again: as it was, but not later, sooner or until some time, and with whatever definition the tool has
 * now, since it was probably mended.
 */
export function callOf({ call }: DeadLetterRow): (Omit<AdmittedCall, 'callId'> & { effectKey: string }) | undefined {
  if (call === null || call === undefined) return undefined
  const { kind, fingerprint, tool, effect, payload, payload_ref, timeout_ms, callback, reply, trace, origin } = call
  const identity: Identity = JSON.parse(call.identity)
  return {
    effectKey: effectKeyOf(call, identity),
    kind,
    identity,
    fingerprint,
    tool,
    effect,
    payloadBytes: call.payload_bytes,
    ...(payload === null ? {} : { payload }),
    ...(payload_ref === null ? {} : { payloadRef: payload_ref }),
    ...(timeout_ms === null ? {} : { timeoutMs: timeout_ms }),
    ...(callback === null ? {} : { callback }),
    ...(reply === null ? {} : { reply: JSON.parse(reply) }),
    ...(trace === null ? {} : { trace }),
    ...(origin === null ? {} : { origin: JSON.parse(origin) }),
  }
}

/** The repeat is the same work: its tool, or those that a chain or a program calls, know it under the same key. */
function effectKeyOf({ kind, call_id: callId, idem_key, effect_key }: CallRow, identity: Identity): string {
  if (effect_key !== null) return effect_key
  return kind !== 'call' ? callId : downstreamKey({ identity, callId, ...(idem_key === null ? {} : { key: idem_key }) })
}

/** Whether a text from outside can be the id of a letter. */
export function isDeadLetterId(id: string): boolean {
  return /^[\x21-\x7e]{1,200}$/.test(id)
}

/** What was asked for, as a letter shows it: marks stand for what its keys say is secret, and for passwords in URLs. */
export function shownPayload(text: string, mark: RedactionMark): Json {
  const redactor = createRedactor({ mark })
  try {
    return redactor.value(JSON.parse(text))
  } catch {
    // What could not be read as JSON, because it is cut, say, is shown as the text that it is.
    return redactor.value(withoutSecretMembers(text, mark))
  }
}

// A key does not begin behind a backslash; without that each quote of an escaped text would be tried as the start of one.
const member = /(?<!\\)"((?:[^"\\]|\\.){1,200})"\s*:\s*/g
const scalar = /^(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s,}\]{["]+)/

/** The end of an object or a list may be missing, so that all that follows the key of one is left out. */
function withoutSecretMembers(text: string, mark: RedactionMark): string {
  let shown = ''
  let done = 0
  for (const found of text.matchAll(member)) {
    const at = found.index + found[0].length
    if (found.index < done || !isSecretKey(found[1] ?? '')) continue
    const value = scalar.exec(text.slice(at))
    const end = value === null ? text.length : at + value[0].length
    shown += `${text.slice(done, at)}"${mark(text.slice(at, end), 'shape')}"`
    done = end
  }
  return shown + text.slice(done)
}

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

/**
 * Who reads dead letters: somebody, and what a tool is to him; or the service for a tenant, by its name.
 * - A letter of a tool that he is not shown is not there for him, unless he operates and the tool is there for him.
 * - One of no tool, as of a message that could not be read, is there for those who operate and are bound to no tools.
 * - Of chains and programs, which may call anything, those of others are not there for one who is bound to tools.
 */
export type DeadLetterReader =
  | string
  | { readonly identity: Identity; readonly standing: (tool: string) => ToolVisibility }

/** Who holds it deals with dead letters, and is shown what was asked for. */
export const operatePermission = 'gantry:operate'

/** What of a letter decides who may see it. */
interface LetterSubject {
  readonly tool: string | null
  /** Of the call, if there is one. */
  readonly call?: { readonly kind: CallKind; readonly principal: string } | null
}

export function tenantOfReader(reader: DeadLetterReader): string {
  return typeof reader === 'string' ? reader : reader.identity.tenant
}

/** Whether he is shown what was asked for. */
export function seesPayload(reader: DeadLetterReader): boolean {
  return typeof reader === 'string' || holds(reader.identity, operatePermission)
}

export function seesDeadLetter(reader: DeadLetterReader, { tool, call }: LetterSubject): boolean {
  if (typeof reader === 'string') return true
  const { principal, tools } = reader.identity
  if (tools !== undefined && call && call.kind !== 'call') return call.principal === principal
  return tool === null ? seesToolless(reader) : seesTool(reader, tool)
}

/** The three values that `seenLettersSql` asks for, of which the first is null for who sees all letters of his tenant. */
export function seenDeadLetters(reader: DeadLetterReader, tools: readonly string[]): readonly unknown[] {
  if (typeof reader === 'string') return [null, null, null]
  const { principal, tools: bound } = reader.identity
  const seen = tools.filter((tool) => seesTool(reader, tool))
  return [JSON.stringify(seen), seesToolless(reader), bound === undefined ? null : principal]
}

/** The same for a letter `d` and its call `c`; a tool that is in none of the given names is not there. */
function seenLettersSql(tools: string, toolless: string, own: string): string {
  return `(${tools}::text is null or case
    when ${own}::text is not null and c.kind <> 'call' then c.principal = ${own}
    when d.tool is null then ${toolless}::boolean
    else d.tool = any (array(select json_array_elements_text(${tools}::json))) end)`
}

type Somebody = Exclude<DeadLetterReader, string>

function seesToolless({ identity }: Somebody): boolean {
  return identity.tools === undefined && holds(identity, operatePermission)
}

function seesTool({ identity, standing }: Somebody, tool: string): boolean {
  if (tool === 'chain') return identity.tools === undefined
  const known = standing(tool)
  return known === 'visible' || (known === 'hidden' && holds(identity, operatePermission))
}
