import { type Queries, storable } from '../../databases/database.ts'
import { endDetails, freesKey } from '../call-facts.ts'
import type { Ending, PlainCall } from '../call-store.ts'
import { holderColumns, inOrder } from './leases.ts'

/** How long the process that completed a call has to send its reply before a relay does. */
const ownAnswer = `interval '15 seconds'`

/** Columns of an ending; `given` is its principal for queue rows without one, which are older than the column. */
const columns = {
  call_id: 'text',
  fence: 'integer',
  status: 'text',
  code: 'text',
  result: 'text',
  ref: 'text',
  bytes: 'integer',
  config: 'text',
  tool: 'text',
  given: 'text',
  details: 'text',
}

/** Additional columns of an ending with a reply: its address, and whether this process sends it. */
const answerColumns = { ...columns, target: 'text', mine: 'boolean' }

type Columns = { readonly [name: string]: string }

/** $1: the endings, locked one by one in their order and by key; see leases.ts. */
const manySql = (names: Columns): string => `
  held as materialized (
    select d.*, q.*
    from json_to_recordset($1::json) as d(${listed(names, (name, type) => `${name} ${type}`)}), lateral (
      select worker, claimed_at, lease_until, tenant, principal from queue
      where call_id = d.call_id and fence = d.fence
      offset 0 for update
    ) q
  ), gone as (
    delete from queue where call_id = any (array(select call_id from held))
  )`

/** One parameter per column; a statement that locks a single row needs no order and no list. */
const oneSql = (names: Columns): string => `
  held as (
    delete from queue where call_id = $1::text and fence = $2::integer
    returning worker, claimed_at, lease_until, tenant, principal,
      ${listed(names, (name, type, n) => `$${n}::${type} as ${name}`)}
  )`

/**
 * Records an ending. Only the attempt of a late worker can exist already, because `reclaim` recorded it; looking for it
 * takes a tenth of the statement's time.
 */
const keptSql = `
  kept as (
    insert into results (call_id, status, code, result, result_ref, result_bytes, fence)
    select call_id, status, code, result, ref, bytes, fence from held
  ), tried as (
    insert into attempts (call_id, fence, worker, outcome, started_at)
    select call_id, fence, worker, status, claimed_at from held where lease_until is not null
  ), tried_late as (
    insert into attempts (call_id, fence, worker, outcome, started_at)
    select call_id, fence, worker, status, claimed_at from held where lease_until is null
    on conflict (call_id, fence) do update set outcome = excluded.outcome, ended_at = excluded.ended_at
  ), noted as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker, status, code, config, details)
    select tenant, coalesce(principal, given), call_id, fence, 'end', tool, worker, status, code, config, details
    from held
  )`

/** Replies over brokers: to the submitter, and to repeated submissions that wait. */
const answerSql = `
  sent as (
    insert into outbox (call_id, tenant, kind, target, tries, lease_until)
    select call_id, tenant, 'reply', target, mine::integer, case when mine then now() + ${ownAnswer} end
    from held where target is not null
    returning lease_until
  ), woken as (
    update outbox set next_at = now()
    where next_at = 'infinity' and call_id = any (array(select call_id from held)) returning id
  )
  select call_id, (select pg_notify('gantry_outbox', '')
    where exists (select from sent where lease_until is null) or exists (select from woken)) as posted
  from held`

const statements = {
  quiet: {
    one: `with ${oneSql(columns)}, ${keptSql} select call_id from held`,
    many: `with ${manySql(columns)}, ${keptSql} select call_id from held`,
  },
  answered: {
    one: `with ${oneSql(answerColumns)}, ${keptSql}, ${answerSql}`,
    many: `with ${manySql(answerColumns)}, ${keptSql}, ${answerSql}`,
  },
}

type PlainEnding = Ending & { readonly plain: PlainCall }

/** Whether the ending only needs to be recorded and replied over a broker. */
function isPlain(ending: Ending): ending is PlainEnding {
  const { plain, dead, result } = ending
  const others = dead !== undefined || result.status === 'denied' || (plain?.keyed === true && freesKey(ending))
  return plain !== undefined && !others
}

/**
 * Completes plain calls in about three quarters of the time of the general statement, a single one in about half,
 * without the time of the disk. Returns those accepted.
 */
async function finishPlain(
  database: Queries,
  endings: readonly PlainEnding[],
  answers: readonly string[],
): Promise<readonly string[]> {
  const quiet = endings.every(({ plain }) => isQuiet(plain))
  const { one, many } = quiet ? statements.quiet : statements.answered
  const [ending, ...more] = endings
  const parameters =
    ending !== undefined && more.length === 0
      ? plainParameters(plainRowOf(ending, answers), quiet ? columns : answerColumns)
      : [JSON.stringify(inOrder(endings).map((each) => plainRowOf(each, answers)))]
  const rows = await database.query<{ call_id: string }>(more.length === 0 ? one : many, parameters)
  return rows.map(({ call_id }) => call_id)
}

/** Whether no one can wait for the call at a broker: it has no reply, and no key to submit it again under. */
function isQuiet({ keyed, reply }: PlainCall): boolean {
  return keyed === undefined && reply === undefined
}

type PlainRow = { readonly [column: string]: unknown }

function plainParameters(row: PlainRow, names: Columns): readonly unknown[] {
  return Object.keys(names).map((name) => row[name] ?? null)
}

function plainRowOf(
  { callId, fence, result, text, ref, bytes, config, plain, thrownAt }: PlainEnding,
  answers: readonly string[],
): PlainRow {
  const { status, error } = result
  const { tool, principal: given, reply } = plain
  return {
    call_id: callId,
    fence,
    status,
    code: error?.code,
    result: text,
    ref,
    bytes,
    config,
    tool,
    given,
    details: endDetails(result, thrownAt),
    target: reply?.to,
    mine: reply === undefined ? undefined : answers.includes(reply.transport),
  }
}

function listed(names: Columns, written: (name: string, type: string, n: number) => string): string {
  return Object.entries(names)
    .map(([name, type], index) => written(name, type, index + 1))
    .join(', ')
}

const longestWhy = 500

/**
 * $1: the endings; $2: 0 for those of holders, 1 when the store itself ends calls that no worker ran. It does so under
 * a fence of its own, so that no late holder takes the outcome for its own. $3: the brokers that this process can send
 * to: it has a while to reply there before relays do.
 * The row of the queue decides: only the transaction that removes it writes the rest.
 */
const finishSql = `
  with d as (
    select * from json_to_recordset($1::json) as d(
      ${holderColumns}, status text, code text, result text, ref text, bytes integer, config text, reason text, details text,
      freed boolean)
  ), ended as materialized (
    select d.*, d.fence + $2::integer as end_fence, q.*, c.*
    from d, lateral (
      select worker, claimed_at, deliveries from queue
      where call_id = d.call_id and fence = d.fence
      offset 0 for update
    ) q, lateral (
      select tenant, principal, tool, callback, reply, idem_key from calls where call_id = d.call_id offset 0
    ) c
  ), gone as (
    delete from queue where call_id = any (array(select call_id from ended)) returning slot_key
  ), kept as (
    insert into results (call_id, status, code, result, result_ref, result_bytes, fence)
    select call_id, status, code, result, ref, bytes, end_fence from ended
  ), tried as (
    insert into attempts (call_id, fence, worker, outcome, started_at)
    select call_id, fence, worker, status, claimed_at from ended where $2 = 0
    on conflict (call_id, fence) do update set outcome = excluded.outcome, ended_at = excluded.ended_at
  ), noted as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker, status, code, config, details)
    select tenant, principal, call_id, end_fence, 'end', tool, case when $2 = 0 then worker end, status, code, config,
      details
    from ended
  ), sent as (
    insert into outbox (call_id, tenant, kind, target, tries, lease_until)
    select call_id, tenant, 'callback', callback, 0, null from ended where callback is not null
    union all
    select call_id, tenant, 'reply', reply ->> 'to', mine::integer,
      case when mine then now() + ${ownAnswer} end
    from (
      select call_id, tenant, reply::json as reply, $2 = 0 and reply::json ->> 'transport' = any ($3::text[]) as mine
      from ended where reply is not null
    ) answered
    returning lease_until
  ), woken as (
    update outbox set next_at = now()
    where next_at = 'infinity' and call_id = any (array(select call_id from ended)) returning id
  ), unkeyed as (
    update calls set idem_key = null
    where call_id = any (array(select call_id from ended where freed and reply is null and idem_key is not null))
  ), dead as (
    insert into dead_letters (id, tenant, call_id, source, reason, code, tool, deliveries)
    select call_id, tenant, call_id, 'call', reason, coalesce(code, 'INTERNAL'), tool, deliveries
    from ended where reason is not null
  )
  select call_id,
    (select fill_slots(array_agg(slot_key)) from gone where slot_key is not null) as filled,
    (select pg_notify('gantry_outbox', '')
      where exists (select from sent where lease_until is null) or exists (select from woken)) as posted
  from ended`

/** Completes calls for the workers that lease them; returns those accepted. */
export function finish(
  database: Queries,
  endings: readonly Ending[],
  answers: readonly string[],
): Promise<readonly string[]> {
  const plain = endings.filter(isPlain)
  return plain.length > 0 && plain.length === endings.length
    ? finishPlain(database, plain, answers)
    : end(database, endings, 0, answers)
}

/**
 * Ends calls that no worker held or may have run when an earlier statement looked; answers those that were not claimed
 * since, which would have raised their fence.
 */
export function endUnrun(database: Queries, endings: readonly Ending[]): Promise<readonly string[]> {
  return end(database, endings, 1, [])
}

async function end(
  database: Queries,
  endings: readonly Ending[],
  unrun: 0 | 1,
  answers: readonly string[],
): Promise<readonly string[]> {
  if (endings.length === 0) return []
  const rows = await database.query<{ call_id: string }>(finishSql, [
    JSON.stringify(inOrder(endings).map(rowOf)),
    unrun,
    answers,
  ])
  return rows.map(({ call_id }) => call_id)
}

function rowOf(ending: Ending) {
  const { callId, fence, result, text, ref, bytes, dead, config, thrownAt } = ending
  const { status, error } = result
  const reason = dead === undefined ? undefined : storable(dead.reason)
  // The audit entry of a denial contains its reason.
  const why = status === 'denied' && error !== undefined ? error.message.slice(0, longestWhy) : undefined
  const details = endDetails(result, thrownAt, why)
  const freed = freesKey(ending)
  return { call_id: callId, fence, status, code: error?.code, result: text, ref, bytes, config, reason, details, freed }
}
