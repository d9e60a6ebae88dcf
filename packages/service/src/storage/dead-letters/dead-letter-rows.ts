import type { CallKind, DeadLetter, EffectClass, Identity, Json } from '@gantry/contract'
import type { ToolVisibility } from '@gantry/core'
import { createRedactor, isSecretKey, type RedactionMark } from '@gantry/core/internal/json/redact'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { downstreamKey } from '../calls/call-facts.ts'
import type { AdmittedCall } from '../calls/call-store.ts'
import { deadLetterPrefix } from '../outbox/outbox.ts'
import { cursorTime } from '../page-cursor.ts'

/** The row of a dead letter; with its call only when a single one is read. */
export type DeadLetterRow = {
  id: string
  call_id: string | null
  source: string
  reason: string
  code: string
  tool: string | null
  deliveries: number
  created_at: Date
  /** Its creation time, in the form of a cursor. */
  place: string
  redriven_at: Date | null
  redriven_by: string | null
  redriven_as: string | null
  discarded_at: Date | null
  discarded_by: string | null
  payload?: string | null
  call?: CallRow | null
}

/** The call of a dead letter, as JSON of the database. */
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

/** The view of a dead letter; with `mark`, also its redacted payload. */
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
 * The call to submit again: as it was, without delay, priority and deadline, and with the present definition of its
 * tool, which was probably repaired.
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

/** The idempotency key for the tools of a redriven call is the same as for the first one. */
function effectKeyOf({ kind, call_id: callId, idem_key, effect_key }: CallRow, identity: Identity): string {
  if (effect_key !== null) return effect_key
  return kind !== 'call' ? callId : downstreamKey({ identity, callId, ...(idem_key === null ? {} : { key: idem_key }) })
}

/** Whether an untrusted text can be the id of a dead letter. */
export function isDeadLetterId(id: string): boolean {
  return /^[\x21-\x7e]{1,200}$/.test(id)
}

/** The payload with marks in place of values under secret names and of passwords in URLs. */
export function shownPayload(text: string, mark: RedactionMark): Json {
  const redactor = createRedactor({ mark })
  try {
    return redactor.value(JSON.parse(text))
  } catch {
    // Invalid JSON, as of a truncated message, is returned as text.
    return redactor.value(withoutSecretMembers(text, mark))
  }
}

// A key does not start after a backslash; otherwise each escaped quote would be tried as the start of a key.
const member = /(?<!\\)"((?:[^"\\]|\\.){1,200})"\s*:\s*/g
const scalar = /^(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s,}\]{["]+)/

/** The end of an object or a list may be missing, so everything after a secret key is redacted. */
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

const place = `${cursorTime('d.created_at')} as place`

const columns = `
  d.id, d.call_id, d.source, d.reason, d.code, d.tool, d.deliveries, d.created_at, ${place},
  d.redriven_at, d.redriven_by, d.redriven_as, d.discarded_at, d.discarded_by`

/** $1: the tenant; $2, $3: the cursor; $4: the limit of dead letters. No row when there are none. */
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

/** $1: the tenant; $2, $3: the cursor; $4: the limit; $5 to $7: of `seenDeadLetters`; $8, $9: the last item, or null. */
export const listSql = `
  select ${columns}
  from dead_letters d
  left join calls c on c.call_id = d.call_id
  where d.tenant = $1 and (d.created_at, d.id) < ($2::timestamptz, $3::text)
    and ($8::timestamptz is null or (d.created_at, d.id) >= ($8::timestamptz, $9::text))
    and ${seenDeadLettersSql('$5', '$6', '$7')}
  order by d.created_at desc, d.id desc
  limit $4`

export const getSql = `
  select ${columns}, d.payload, to_json(c) as call
  from dead_letters d
  left join calls c on c.call_id = d.call_id
  where d.id = $1 and d.tenant = $2`

export const lockSql = `
  select call_id, redriven_as, discarded_at from dead_letters where id = $1 and tenant = $2 for update`

// Only a redriven call names its dead letter, so no other call with the same key is found.
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

// The dead letter is locked first, so that of concurrent redrives and discards only the first takes effect.
export const sendAgainSql = `
  with letter as (
    select id, call_id, tool from dead_letters
    where id = $1 and tenant = $2 and redriven_at is null and discarded_at is null
    for update
  ), back as (
    update outbox o set tries = 0, failed_at = null, next_at = now(), lease_until = null
    from letter l
    where o.id = substr(l.id, ${deadLetterPrefix.length + 1})::bigint
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
 * The reader of dead letters: an identity with the visibility of tools to it; or the service for a tenant, by its name.
 * - A dead letter of a visible tool is seen; one of a hidden tool only by operators.
 * - One without a tool, as of a message that could not be decoded, is seen by operators that are bound to no tools.
 * - Of chains and programs, which may call any tool, an identity that is bound to tools sees only its own.
 */
export type DeadLetterReader =
  | string
  | { readonly identity: Identity; readonly visibilityOf: (tool: string) => ToolVisibility }

/** The permission to redrive and discard dead letters, and to see their arguments. */
export const operatePermission = 'gantry:operate'

/** The fields of a dead letter that decide who may see it. */
interface DeadLetterSubject {
  readonly tool: string | null
  /** Of the call, if there is one. */
  readonly call?: { readonly kind: CallKind; readonly principal: string } | null
}

export function tenantOfReader(reader: DeadLetterReader): string {
  return typeof reader === 'string' ? reader : reader.identity.tenant
}

/** Whether the reader sees the arguments. */
export function seesPayload(reader: DeadLetterReader): boolean {
  return typeof reader === 'string' || holds(reader.identity, operatePermission)
}

export function seesDeadLetter(reader: DeadLetterReader, { tool, call }: DeadLetterSubject): boolean {
  if (typeof reader === 'string') return true
  const { principal, tools } = reader.identity
  if (tools !== undefined && call && call.kind !== 'call') return call.principal === principal
  return tool === null ? seesToolless(reader) : seesTool(reader, tool)
}

/** The three parameters of `seenDeadLettersSql`; the first is null for a reader that sees all of its tenant. */
export function seenDeadLetters(reader: DeadLetterReader, tools: readonly string[]): readonly unknown[] {
  if (typeof reader === 'string') return [null, null, null]
  const { principal, tools: bound } = reader.identity
  const seen = tools.filter((tool) => seesTool(reader, tool))
  return [JSON.stringify(seen), seesToolless(reader), bound === undefined ? null : principal]
}

/** The same for a dead letter `d` and its call `c`; a tool that is not among the given names is not seen. */
function seenDeadLettersSql(tools: string, toolless: string, own: string): string {
  return `(${tools}::text is null or case
    when ${own}::text is not null and c.kind <> 'call' then c.principal = ${own}
    when d.tool is null then ${toolless}::boolean
    else d.tool = any (array(select json_array_elements_text(${tools}::json))) end)`
}

type ReadingIdentity = Exclude<DeadLetterReader, string>

function seesToolless({ identity }: ReadingIdentity): boolean {
  return identity.tools === undefined && holds(identity, operatePermission)
}

function seesTool({ identity, visibilityOf }: ReadingIdentity, tool: string): boolean {
  if (tool === 'chain') return identity.tools === undefined
  const known = visibilityOf(tool)
  return known === 'visible' || (known === 'hidden' && holds(identity, operatePermission))
}
