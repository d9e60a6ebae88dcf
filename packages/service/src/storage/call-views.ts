import { text } from 'node:stream/consumers'
import { type CallState, type CallView, type ChainResult, type Paged, type Result, ToolError } from '@gantry/contract'
import type { Artifacts } from './artifacts/artifact-records.ts'
import type { PageQuery } from './call-input.ts'
import type { Queries, TenantReads } from './databases/database.ts'
import { readCursor, writeCursor } from './page-cursor.ts'
import { type Reader, seenSql, seenValues, tenantOf } from './reader.ts'

/** Which calls to list. */
export interface CallQuery extends PageQuery {
  readonly state?: string
  /** With its version, or without for all of them. */
  readonly tool?: string
}

/**
 * Calls as others see them, joined from the tables that each know a part.
 * - Tenants: a call of another tenant, or that its reader does not see, is NOT_FOUND, like one that never was.
 * - Errors: NOT_FOUND, INPUT_INVALID for a query that makes no sense, otherwise the stores'.
 */
export interface CallViews {
  get(callId: string, reader: Reader, signal: AbortSignal): Promise<CallView>
  /** The newest first, without their results. */
  list(query: CallQuery, reader: Reader): Promise<Paged<CallView>>
  /**
   * The outcomes of those calls that have one, of the tenant when it is given, else whosever they are; one whose file
   * cannot be read now is left out.
   */
  outcomes(
    callIds: readonly string[],
    signal: AbortSignal,
    tenant?: string,
  ): Promise<ReadonlyMap<string, Result | ChainResult>>
}

const live: readonly string[] = ['queued', 'delayed', 'asked', 'running'] satisfies CallState[]
const ended: readonly string[] = ['ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown'] satisfies CallState[]
const mostItems = 200
const longestId = 512

/** Reads outcomes for as long as the signal has not aborted. */
export function outcomeReader(views: Pick<CallViews, 'outcomes'>, signal: AbortSignal) {
  return (callIds: readonly string[]) => views.outcomes(callIds, signal)
}

export function callViews(database: Queries & TenantReads, artifacts: Pick<Artifacts, 'content'>): CallViews {
  const outcomeOf = async (row: ResultRow, signal: AbortSignal): Promise<Result | ChainResult | undefined> => {
    if (row.result !== null) return JSON.parse(row.result)
    if (row.result_ref === null) return undefined
    return JSON.parse(await text(await artifacts.content(row.result_ref, signal)))
  }
  return {
    async get(callId, reader, signal) {
      const tenant = tenantOf(reader)
      const values = [tenant, callId, ...seenValues(reader)]
      const [row] = isId(callId) ? await database.asTenant(tenant).query<ViewRow & ResultRow>(getSql, values) : []
      if (row === undefined) throw new ToolError('NOT_FOUND', 'There is no call of this id.')
      const result = await outcomeOf(row, signal)
      return result === undefined ? viewOf(row) : { ...viewOf(row), result }
    },
    async list({ limit = 50, cursor, state, tool }, reader) {
      const tenant = tenantOf(reader)
      const most = Math.min(Math.max(1, limit), mostItems)
      const { at, id } = readCursor(cursor)
      const sql = listSql[kindOf(state)]
      const rows = await database
        .asTenant(tenant)
        .query<ViewRow & { place: string }>(sql, [
          ...[tenant, at, id, most + 1],
          ...[tool === undefined ? null : checkedTool(tool), ...seenValues(reader)],
          ...(state === undefined ? [] : [state]),
        ])
      const items = rows.slice(0, most)
      const last = items.at(-1)
      const views = items.map(viewOf)
      if (rows.length <= most || last === undefined) return { items: views }
      return { items: views, cursor: writeCursor({ at: last.place, id: last.call_id }) }
    },
    async outcomes(callIds, signal, tenant) {
      const queries = tenant === undefined ? database : database.asTenant(tenant)
      const rows = await queries.query<ResultRow & { call_id: string }>(outcomesSql, [JSON.stringify(callIds)])
      const read = await Promise.allSettled(rows.map((row) => outcomeOf(row, signal)))
      const found = new Map<string, Result | ChainResult>()
      for (const [index, { call_id: callId }] of rows.entries()) {
        const outcome = read[index]
        if (outcome?.status === 'fulfilled' && outcome.value !== undefined) found.set(callId, outcome.value)
      }
      return found
    },
  }
}

type ViewRow = {
  call_id: string
  kind: CallView['kind']
  tool: string
  state: CallState
  principal: string
  priority: number | null
  created_at: Date
  started_at: Date | null
  finished_at: Date | null
  attempts: number
}
type ResultRow = { result: string | null; result_ref: string | null }

function viewOf({ call_id: callId, kind, tool, state, principal, priority, attempts, ...times }: ViewRow): CallView {
  const { created_at: created, started_at: started, finished_at: finished } = times
  return {
    callId,
    kind,
    tool,
    state,
    principal,
    ...(priority === null ? {} : { priority }),
    createdAt: created.toISOString(),
    ...(started === null ? {} : { startedAt: started.toISOString() }),
    ...(finished === null ? {} : { finishedAt: finished.toISOString() }),
    attempts,
  }
}

function kindOf(state: string | undefined): keyof typeof listSql {
  if (state === undefined) return 'all'
  if (live.includes(state)) return 'live'
  if (ended.includes(state)) return state === 'ok' ? 'ok' : 'ended'
  throw invalid('/state', `must be one of ${[...live, ...ended].join(', ')}`)
}

function isId(id: string): boolean {
  return id.length <= longestId && !id.includes('\0')
}

function checkedTool(tool: string): string {
  if (!isId(tool)) throw invalid('/tool', 'must be the id of a tool')
  return tool
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('INPUT_INVALID', `The query is wrong: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}

const liveSql = `
  case when q.lease_until is not null then 'running' when q.lane = 'later' then 'delayed'
    when q.lane = 'asked' then 'asked' else 'queued' end`

const columns = `
  c.call_id, c.kind, c.tool, c.principal, q.priority, c.created_at, r.finished_at,
  coalesce(r.status, ${liveSql}) as state,
  coalesce(a.started_at, case when q.lease_until is not null then q.claimed_at end) as started_at,
  a.ended + case when q.lease_until is not null then 1 else 0 end as attempts`

const joins = `
  left join queue q on q.call_id = c.call_id
  left join results r on r.call_id = c.call_id
  left join lateral (
    select count(*)::integer as ended, min(started_at) as started_at from attempts where call_id = c.call_id
  ) a on true`

const getSql = `
  select ${columns}, r.result, r.result_ref
  from calls c ${joins}
  where c.tenant = $1 and c.call_id = $2 and ${seenSql('$3', '$4')}`

/** Which calls, from the one table that knows; the rest is joined for those on the page only. */
function listOf(state: string): string {
  return `
    select ${columns}, to_char(c.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
    from (
      select c.call_id, c.kind, c.tool, c.principal, c.created_at
      from calls c ${state}
      where c.tenant = $1 and (c.created_at, c.call_id) < ($2::timestamptz, $3::text)
        and ($5::text is null or c.tool = $5 or starts_with(c.tool, $5 || ':'))
        and ${seenSql('$6', '$7')}
      order by c.created_at desc, c.call_id desc
      limit $4
    ) c ${joins}
    order by c.created_at desc, c.call_id desc`
}

// Calls that did not end well are few, and have an index of their own, which only this condition makes use of.
const listSql = {
  all: listOf(''),
  live: listOf(`join queue q on q.call_id = c.call_id and ${liveSql} = $8`),
  ok: listOf('join results r on r.call_id = c.call_id and r.status = $8'),
  ended: listOf("join results r on r.call_id = c.call_id and r.status = $8 and r.status <> 'ok'"),
} as const

const outcomesSql = `
  select call_id, result, result_ref from results
  where call_id in (select json_array_elements_text($1::json))`
