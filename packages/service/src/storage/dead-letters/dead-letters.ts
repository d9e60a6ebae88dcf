import { createHash } from 'node:crypto'
import { type DeadLetter, type ErrorCode, type Identity, type Paged, ToolError } from '@gantry/contract'
import { createRedactionMark, type RedactionMark } from '@gantry/core/internal/json/redact'
import type { AdmittedCall } from '../calls/call-store.ts'
import { submit } from '../calls/sql/submit.ts'
import { type Database, type Queries, storable, type TenantReads } from '../databases/database.ts'
import { inheritJournal } from '../journal.ts'
import { deadLetterPrefix } from '../outbox/outbox.ts'
import { type PageCursor, type PageQuery, pageOf, pageSize, readCursor } from '../page-cursor.ts'
import {
  callOf,
  type DeadLetterReader,
  type DeadLetterRow,
  deadLetterOf,
  discardSql,
  getSql,
  handedInSql,
  isDeadLetterId,
  listSql,
  lockSql,
  redrivenSql,
  seenDeadLetters,
  seesDeadLetter,
  seesPayload,
  sendAgainSql,
  stretchSql,
  tenantOfReader,
} from './dead-letter-rows.ts'

/**
 * Dead letters, in the table `dead_letters`.
 *
 * States: `open` → `redriven` | `discarded`
 *
 * - `open` → `redriven` or `discarded`: an operator redrives or discards it; the first one wins, and a repeat changes
 *   nothing.
 * - `redriven` → `open`: the callback that was redriven failed again.
 *
 * - Tenants: a dead letter of another tenant, or that its reader does not see, is NOT_FOUND.
 * - Errors: NOT_FOUND, INPUT_INVALID for what cannot be done with a dead letter, otherwise the store's.
 */
export interface DeadLetters {
  /** Newest first, without arguments. */
  list(query: PageQuery, reader: DeadLetterReader): Promise<Paged<DeadLetter>>
  /** With the arguments for operators; values under secret names are redacted. */
  get(id: string, reader: DeadLetterReader): Promise<DeadLetter>
  /**
   * Submits the call again, with the identity of its first caller and a new id, which a second redrive returns too; or
   * makes the unsent message due again. A chain or a program starts with its journal. The audit log records `by`; the
   * caller must check that `by` may redrive and sees the dead letter.
   */
  redrive(id: string, by: Identity): Promise<{ readonly callId: string }>
  discard(id: string, by: Identity): Promise<void>
}

export interface DeadLettersOptions {
  readonly database: Queries & TenantReads & Pick<Database, 'transaction'>
  readonly newId: () => string
  /** Adds the present requirements of its tool to a redriven call, such as its slot. */
  readonly prepare?: (call: AdmittedCall) => AdmittedCall | Promise<AdmittedCall>
  /** Makes the marks of redacted values; with a random key when absent. */
  readonly mark?: RedactionMark
  /** Number of dead letters that a list scans at a time; 10,000 when absent. */
  readonly stretch?: number
}

const usualStretch = 10_000

export function deadLetterRecords(options: DeadLettersOptions): DeadLetters {
  const { database, newId, prepare = (call) => call, stretch = usualStretch, mark = createRedactionMark() } = options
  const find = async (id: string, tenant: string): Promise<DeadLetterRow> => {
    const [row] = isDeadLetterId(id) ? await database.asTenant(tenant).query<DeadLetterRow>(getSql, [id, tenant]) : []
    if (row === undefined) throw notFound()
    return row
  }
  /**
   * While the dead letter is locked, neither it nor its call with its journal can be removed or redriven by others, so
   * that the new call needs no key, which its caller could have used before.
   */
  const submitAgain = async (deadLetter: DeadLetterRow, by: Identity): Promise<string> => {
    const call = callOf(deadLetter)
    if (call === undefined) throw wrong('has no readable call, or its call was removed; discard it')
    const again = await prepare({ ...call, callId: newId(), redriveOf: deadLetter.id })
    return database.transaction(async (queries) => {
      const [now] = await queries.query<LockedRow>(lockSql, [deadLetter.id, by.tenant])
      if (now === undefined) throw notFound()
      if (now.redriven_as !== null) return now.redriven_as
      if (now.discarded_at !== null) throw wrong('was discarded')
      const callId = (await handedIn(queries, again)) ?? (await handIn(queries, again))
      if (callId === again.callId && call.kind !== 'call') {
        await inheritJournal(queries, { from: now.call_id, origin: call.effectKey, to: callId })
      }
      await queries.query(redrivenSql, [deadLetter.id, by.tenant, by.principal, callId])
      return callId
    })
  }
  const sendAgain = async (deadLetter: DeadLetterRow, by: Identity): Promise<string> => {
    const [row] = await database.query<{ call_id: string }>(sendAgainSql, [deadLetter.id, by.tenant, by.principal])
    if (row !== undefined) return row.call_id
    const { redriven_as: before } = await find(deadLetter.id, by.tenant)
    if (before === null) throw wrong('was discarded, or its message is no longer in the outbox')
    return before
  }
  return {
    async list({ limit, cursor }, reader) {
      const most = pageSize(limit)
      const queries = database.asTenant(tenantOfReader(reader))
      const rows = await listDeadLetters(queries, { reader, from: readCursor(cursor), most: most + 1, stretch })
      return pageOf(rows, most, { itemOf: (row) => deadLetterOf(row), idOf: (row) => row.id })
    },
    async get(id, reader) {
      const row = await find(id, tenantOfReader(reader))
      if (!seesDeadLetter(reader, row)) throw notFound()
      return deadLetterOf(row, seesPayload(reader) ? mark : undefined)
    },
    async redrive(id, by) {
      const deadLetter = await find(id, by.tenant)
      if (deadLetter.redriven_as !== null) return { callId: deadLetter.redriven_as }
      if (deadLetter.discarded_at !== null) throw wrong('was discarded')
      if (deadLetter.id.startsWith(deadLetterPrefix)) return { callId: await sendAgain(deadLetter, by) }
      return { callId: await submitAgain(deadLetter, by) }
    },
    async discard(id, by) {
      const { redriven_as: before } = await find(id, by.tenant)
      if (before !== null) throw wrong(`was redriven as ${before}`)
      await database.query(discardSql, [id, by.tenant, by.principal])
    },
  }
}

/** The call that an older version submitted under a key without marking the dead letter. */
async function handedIn(queries: Queries, { identity, redriveOf }: AdmittedCall): Promise<string | undefined> {
  const { tenant, principal } = identity
  const [row] = await queries.query<{ call_id: string }>(handedInSql, [tenant, principal, redriveOf])
  return row?.call_id
}

async function handIn(queries: Queries, call: AdmittedCall): Promise<string> {
  const [submitted] = await submit(queries, [call], undefined)
  if (submitted?.kind === 'new') return submitted.callId
  throw new ToolError('INTERNAL', 'The id of the new call exists already; redrive the dead letter again.')
}

type LockedRow = Pick<DeadLetterRow, 'redriven_as' | 'discarded_at'> & { call_id: string }

function notFound(): ToolError {
  return new ToolError('NOT_FOUND', 'There is no dead letter of this id.')
}

function wrong(words: string): ToolError {
  return new ToolError('INPUT_INVALID', `The dead letter ${words}.`, { stage: 'admit' })
}

/** A page of the dead letters that the reader sees. */
interface DeadLetterQuery {
  readonly reader: DeadLetterReader
  readonly from: PageCursor
  readonly most: number
  /** Number of dead letters scanned at a time; bounded, because senders of messages can invent tool names. */
  readonly stretch: number
}

/**
 * The newest dead letters that the reader sees. Only the catalog knows which tools are visible, so that the tool names
 * of a stretch of dead letters are read first, and those that are visible are parameters of the statement.
 */
async function listDeadLetters(queries: Queries, query: DeadLetterQuery): Promise<readonly DeadLetterRow[]> {
  const { reader, from, most, stretch } = query
  const tenant = tenantOfReader(reader)
  const found: DeadLetterRow[] = []
  for (let place: PageCursor | undefined = from; place !== undefined && found.length < most; ) {
    const { at, id }: PageCursor = place
    const { tools, end } = await stretchFrom(queries, tenant, place, reader, stretch)
    const values = [
      tenant,
      at,
      id,
      most - found.length,
      ...seenDeadLetters(reader, tools),
      end?.at ?? null,
      end?.id ?? null,
    ]
    found.push(...(await queries.query<DeadLetterRow>(listSql, values)))
    place = end
  }
  return found
}

type Stretch = { readonly tools: readonly string[]; readonly end: PageCursor | undefined }
type StretchRow = { tools: string; place: string; id: string }

/** The next stretch; its end is the last dead letter, and absent when none can follow. */
async function stretchFrom(
  queries: Queries,
  tenant: string,
  { at, id }: PageCursor,
  reader: DeadLetterReader,
  most: number,
): Promise<Stretch> {
  if (typeof reader === 'string') return { tools: [], end: undefined }
  const [row] = await queries.query<StretchRow & { count: number }>(stretchSql, [tenant, at, id, most])
  if (row === undefined) return { tools: [], end: undefined }
  return { tools: JSON.parse(row.tools), end: row.count < most ? undefined : { at: row.place, id: row.id } }
}

/** A message that did not become a call. */
export interface RefusedMessage {
  /** The tenant of the dead letter and of the replies: the sender's, or the source's when the sender is unknown. */
  readonly tenant: string
  /** The topic or the stream; with the position it identifies the message. */
  readonly source: string
  readonly position: string
  readonly deliveries: number
  readonly code: ErrorCode
  readonly reason: string
  readonly tool?: string | undefined
  /** When present, the message becomes a dead letter with this payload. */
  readonly dead?: { readonly payload?: string }
  /** Replies to send. */
  readonly messages: readonly { readonly target: string; readonly body: string }[]
}

/**
 * Records refused messages: their dead letters and replies, in one transaction. A message that is delivered again
 * changes nothing, but may be replied to twice.
 */
export async function refuseMessages(database: Queries, refused: readonly RefusedMessage[]): Promise<void> {
  if (refused.length === 0) return
  const deadLetters = refused.filter(({ dead }) => dead !== undefined).map(deadLetterRowOf)
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

function deadLetterRowOf({ tenant, source, position, deliveries, code, reason, tool, dead }: RefusedMessage) {
  const id = `message-${createHash('sha256')
    .update(JSON.stringify([source, position]))
    .digest('hex')
    .slice(0, 32)}`
  return {
    id,
    tenant,
    source,
    deliveries,
    code,
    reason: storable(reason),
    tool: tool === undefined ? undefined : storable(tool.slice(0, 300)),
    payload: dead?.payload === undefined ? undefined : storable(dead.payload),
  }
}
