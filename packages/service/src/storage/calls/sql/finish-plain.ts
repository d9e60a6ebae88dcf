import type { Queries } from '../../databases/database.ts'
import type { Ending, PlainCall } from '../call-store.ts'
import { endDetails } from '../end-details.ts'
import { freesKey } from '../plain-call.ts'
import { inOrder } from './holders.ts'

/** How long whoever ended a call has for answering it, before a relay does. */
export const ownAnswer = `interval '15 seconds'`

/** What is known of an ending; `given` is whose call it is where the queue does not say, as in its oldest rows. */
const columns = {
  ...{ call_id: 'text', fence: 'integer', status: 'text', code: 'text', result: 'text', ref: 'text', bytes: 'integer' },
  ...{ config: 'text', tool: 'text', given: 'text', details: 'text' },
} as const

/** Besides, for an answer: where to, and whether this process gives it. */
const answerColumns = { ...columns, target: 'text', mine: 'boolean' } as const

type Columns = { readonly [name: string]: string }

/** $1: the endings. They are locked in their order, one by one; holders.ts says why, and why by their keys only. */
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

/** One parameter for each column; who locks one row only needs no order, and no list. */
const oneSql = (names: Columns): string => `
  held as (
    delete from queue where call_id = $1::text and fence = $2::integer
    returning worker, claimed_at, lease_until, tenant, principal,
      ${listed(names, (name, type, n) => `$${n}::${type} as ${name}`)}
  )`

/**
 * What of an ending goes on record. Whoever takes a lease away leaves an attempt, so that only of a late holder there can
 * be one already, and looking for it takes a tenth of the time of all.
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

/** Who is told over brokers: those who asked for the call, and those who handed it in again and wait. */
const toldSql = `
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
    one: `with ${oneSql(answerColumns)}, ${keptSql}, ${toldSql}`,
    many: `with ${manySql(answerColumns)}, ${keptSql}, ${toldSql}`,
  },
}

type PlainEnding = Ending & { readonly plain: PlainCall }

/** Whether the end of the call leads to nothing but a record of it, and an answer over a broker. */
export function isPlain(ending: Ending): ending is PlainEnding {
  const { plain, dead, result } = ending
  const others = dead !== undefined || result.status === 'denied' || (plain?.keyed === true && freesKey(ending))
  return plain !== undefined && !others
}

/**
 * Ends plain calls for their holders, in about three quarters of the time of the statement for all, and one alone in
 * about half, the disk left out. Answers those that were accepted.
 */
export async function finishPlain(
  database: Queries,
  endings: readonly PlainEnding[],
  answers: readonly string[],
): Promise<readonly string[]> {
  const rows = inOrder(endings).map((ending) => rowOf(ending, answers))
  const quiet = endings.every(({ plain }) => isQuiet(plain))
  const { one, many } = quiet ? statements.quiet : statements.answered
  const names = Object.keys(quiet ? columns : answerColumns) as (keyof PlainRow)[]
  const [row, ...more] = rows
  const accepted =
    row !== undefined && more.length === 0
      ? await database.query<{ call_id: string }>(
          one,
          names.map((name) => row[name] ?? null),
        )
      : await database.query<{ call_id: string }>(many, [JSON.stringify(rows)])
  return accepted.map(({ call_id }) => call_id)
}

/** Only who hands in a call again under its key can wait for it at a broker without being its reply. */
function isQuiet({ keyed, reply }: PlainCall): boolean {
  return keyed === undefined && reply === undefined
}

type PlainRow = ReturnType<typeof rowOf>

function rowOf({ callId, fence, result, text, ref, bytes, config, plain }: PlainEnding, answers: readonly string[]) {
  const { status, error } = result
  const { tool, principal: given, reply } = plain
  const answer = reply === undefined ? {} : { target: reply.to, mine: answers.includes(reply.transport) }
  return {
    ...{ call_id: callId, fence, status, code: error?.code, result: text, ref, bytes, config, tool, given },
    details: endDetails(result),
    ...{ target: undefined, mine: undefined, ...answer },
  }
}

function listed(names: Columns, written: (name: string, type: string, n: number) => string): string {
  return Object.entries(names)
    .map(([name, type], index) => written(name, type, index + 1))
    .join(', ')
}
