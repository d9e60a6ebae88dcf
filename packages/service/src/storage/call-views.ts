import { text } from 'node:stream/consumers'
import {
  type ArtifactRef,
  type CallState,
  type CallView,
  type ChainResult,
  type Json,
  type Paged,
  type Result,
  ToolError,
} from '@gantry/contract'
import { createRedactionMark, type RedactionMark } from '@gantry/core/internal/json/redact'
import type { Artifacts } from './artifacts/artifact-records.ts'
import type { AdmittedCall } from './calls/call-store.ts'
import type { Queries, TenantReads } from './databases/database.ts'
import { shownPayload } from './dead-letters/dead-letter-rows.ts'
import { type JournalEntry, journalRecords } from './journal.ts'
import { cursorTime, type PageQuery, pageOf, pageSize, readCursor } from './page-cursor.ts'
import { type Reader, seenSql, seenValues, tenantOf } from './reader.ts'

/** Filter of a list of calls. */
export interface CallQuery extends PageQuery {
  readonly state?: string
  /** With a version, or without for all versions. */
  readonly tool?: string
}

/**
 * Views of calls, joined from their tables.
 * - Tenants: a call of another tenant, or that its reader does not see, is NOT_FOUND, as an unknown id is.
 * - Errors: NOT_FOUND, INPUT_INVALID for an invalid query, otherwise the stores'.
 */
export interface CallViews {
  get(callId: string, reader: Reader, signal: AbortSignal): Promise<CallView>
  /**
   * The arguments of the call, or its chain, without secrets; undefined when they were removed with the file that they
   * were. NOT_FOUND as for `get`.
   */
  args(callId: string, reader: Reader, signal: AbortSignal): Promise<Json | undefined>
  /** Newest first, without results. */
  list(query: CallQuery, reader: Reader): Promise<Paged<CallView>>
  /**
   * The outcomes of those calls that have one; only of the tenant when it is given. An outcome whose file cannot be
   * read now is omitted.
   */
  outcomes(
    callIds: readonly string[],
    signal: AbortSignal,
    tenant?: string,
  ): Promise<ReadonlyMap<string, Result | ChainResult>>
}

const live: readonly string[] = ['queued', 'delayed', 'asked', 'running'] satisfies CallState[]
const ended: readonly string[] = ['ok', 'failed', 'denied', 'timeout', 'cancelled', 'unknown'] satisfies CallState[]
const longestId = 512

/** Reads outcomes until the signal aborts. */
export function outcomeReader(views: Pick<CallViews, 'outcomes'>, signal: AbortSignal) {
  return (callIds: readonly string[]) => views.outcomes(callIds, signal)
}

export function callViews(
  database: Queries & TenantReads,
  artifacts: Pick<Artifacts, 'content'>,
  mark: RedactionMark = createRedactionMark(),
): CallViews {
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
    async args(callId, reader, signal) {
      const tenant = tenantOf(reader)
      const values = [tenant, callId, ...seenValues(reader)]
      const [row] = isId(callId) ? await database.asTenant(tenant).query<PayloadRow>(payloadSql, values) : []
      if (row === undefined) throw new ToolError('NOT_FOUND', 'There is no call of this id.')
      const { payload, payload_ref: ref } = row
      if (payload !== null) return shownPayload(payload, mark)
      return ref === null ? undefined : shownPayload(await text(await artifacts.content(ref, signal)), mark)
    },
    async list({ limit, cursor, state, tool }, reader) {
      const tenant = tenantOf(reader)
      const most = pageSize(limit)
      const { at, id } = readCursor(cursor)
      const sql = listSql[kindOf(state)]
      const rows = await database
        .asTenant(tenant)
        .query<ViewRow & { place: string }>(sql, [
          tenant,
          at,
          id,
          most + 1,
          tool === undefined ? null : checkedTool(tool),
          ...seenValues(reader),
          ...(state === undefined ? [] : [state]),
        ])
      return pageOf(rows, most, { itemOf: viewOf, idOf: (row) => row.call_id })
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
type PayloadRow = { payload: string | null; payload_ref: string | null }

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

const payloadSql = `
  select c.payload, c.payload_ref from calls c
  where c.tenant = $1 and c.call_id = $2 and ${seenSql('$3', '$4')}`

/** Selects the page from the one table that has the state, and joins the others for that page only. */
function listOf(state: string): string {
  return `
    select ${columns}, ${cursorTime('c.created_at')} as place
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

// Failed calls are few and have a partial index, which needs this condition.
const listSql = {
  all: listOf(''),
  live: listOf(`join queue q on q.call_id = c.call_id and ${liveSql} = $8`),
  ok: listOf('join results r on r.call_id = c.call_id and r.status = $8'),
  ended: listOf("join results r on r.call_id = c.call_id and r.status = $8 and r.status <> 'ok'"),
} as const

const outcomesSql = `
  select call_id, result, result_ref from results
  where call_id in (select json_array_elements_text($1::json))`

/** All records of an ended call. */
export interface RecordedCall {
  /** As it was admitted. */
  readonly call: Pick<
    AdmittedCall,
    'callId' | 'kind' | 'identity' | 'tool' | 'digest' | 'payload' | 'payloadRef' | 'payloadBytes' | 'effectKey'
  >
  /** The fence of the outcome. */
  readonly fence: number
  readonly outcome: Result | ChainResult
  /** Inner calls of a chain or a program, including those of the call that it repeats. */
  readonly journal: ReadonlyMap<string, JournalEntry>
  /** Artifacts of the outcome, by digest. */
  readonly files: ReadonlyMap<string, ArtifactRef>
}

/** Reads the records of a call; NOT_FOUND when the reader does not see it, INPUT_INVALID when it has not ended. */
export async function readRecorded(
  queries: Queries,
  views: Pick<CallViews, 'get'>,
  { callId, reader, signal }: { readonly callId: string; readonly reader: Reader; readonly signal: AbortSignal },
): Promise<RecordedCall> {
  const tenant = tenantOf(reader)
  const { result: outcome, state } = await views.get(callId, reader, signal)
  const [row] = await queries.query<RecordedRow>(callSql, [tenant, callId])
  if (outcome === undefined || row === undefined) {
    throw new ToolError('INPUT_INVALID', `The call has not ended, it is ${state}; there is nothing to replay yet.`)
  }
  const call = callOf(row)
  const rows = await queries.query<FileRow>(filesSql, [tenant, callId, row.fence])
  const files = rows.map((file): [string, ArtifactRef] => [file.digest, { ...fileOf(file) }])
  const journal = call.kind !== 'call' ? await journalOf(queries, callId, row.effect_key) : new Map()
  return { call, fence: row.fence, outcome, journal, files: new Map(files) }
}

async function journalOf(queries: Queries, callId: string, repeated: string | null): Promise<RecordedCall['journal']> {
  const journal = journalRecords(queries)
  const earlier = repeated === null ? [] : await journal.read(repeated)
  return new Map([...earlier, ...(await journal.read(callId))])
}

type RecordedRow = {
  call_id: string
  kind: AdmittedCall['kind']
  identity: string
  tool: string
  digest: string | null
  payload: string | null
  payload_ref: string | null
  payload_bytes: number
  effect_key: string | null
  fence: number
}

function callOf(row: RecordedRow): RecordedCall['call'] {
  return {
    callId: row.call_id,
    kind: row.kind,
    identity: JSON.parse(row.identity),
    tool: row.tool,
    payloadBytes: row.payload_bytes,
    ...(row.digest === null ? {} : { digest: row.digest }),
    ...(row.payload === null ? {} : { payload: row.payload }),
    ...(row.payload_ref === null ? {} : { payloadRef: row.payload_ref }),
    ...(row.effect_key === null ? {} : { effectKey: row.effect_key }),
  }
}

type FileRow = { id: string; name: string; mime_type: string; bytes: number; digest: string }

function fileOf({ id, name, mime_type: mimeType, bytes, digest }: FileRow): ArtifactRef {
  return { id, name, mimeType, bytes: Number(bytes), digest }
}

const callSql = `
  select c.call_id, c.kind, c.identity, c.tool, c.digest, c.payload, c.payload_ref, c.payload_bytes, c.effect_key, r.fence
  from calls c join results r on r.call_id = c.call_id
  where c.tenant = $1 and c.call_id = $2`

const filesSql = `
  select id, name, mime_type, bytes, digest from artifacts
  where tenant = $1 and call_id = $2 and fence = $3 order by created_at limit 10000`
