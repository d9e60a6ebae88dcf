import { type DeadLetter, type Identity, type Paged, ToolError } from '@gantry/contract'
import { createRedactionMark, type RedactionMark } from '@gantry/core/internal/json/redact'
import type { PageQuery } from '../call-input.ts'
import type { AdmittedCall } from '../calls/call-store.ts'
import { submit } from '../calls/sql/submit.ts'
import type { Database, Queries, TenantReads } from '../databases/database.ts'
import { inheritJournal } from '../journal.ts'
import { letterPrefix } from '../outbox/outbox.ts'
import { type PageCursor, readCursor, writeCursor } from '../page-cursor.ts'
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
 * What could not be done and waits for a person, in the table `dead_letters`.
 *
 * A letter is *open* until somebody redrives it or discards it; only one of them can be done, and a second time changes
 * nothing. The letter of a callback that was redriven and failed again is open again.
 * - Tenants: a letter of another tenant, or that its reader does not see, is NOT_FOUND, like one that never was.
 * - Errors: NOT_FOUND, INPUT_INVALID for what cannot be done with a letter, otherwise the store's.
 */
export interface DeadLetters {
  /** The newest first, without what was asked for. */
  list(query: PageQuery, reader: DeadLetterReader): Promise<Paged<DeadLetter>>
  /** With what was asked for, without what its keys say is secret, for those who operate. */
  get(id: string, reader: DeadLetterReader): Promise<DeadLetter>
  /**
   * Hands the call in again, as its first caller and under a new id, which a second redrive answers too; or sends again
   * what could not be sent. A chain or a program begins with all that it had done, or might have. Who asked for it is on
   * the audit record. Whether he may, and sees the letter, is for the caller to check.
   */
  redrive(id: string, by: Identity): Promise<{ readonly callId: string }>
  discard(id: string, by: Identity): Promise<void>
}

export interface DeadLettersOptions {
  readonly database: Queries & TenantReads & Pick<Database, 'transaction'>
  readonly newId: () => string
  /** Completes a call that is handed in again with what its tool asks for today, such as its slot. */
  readonly prepare?: (call: AdmittedCall) => AdmittedCall | Promise<AdmittedCall>
  /** What stands for hidden parts of what was asked for; with a random key of its own when absent. */
  readonly mark?: RedactionMark
  /** How many letters a list looks at at a time; 10,000 when absent. */
  readonly stretch?: number
}

const usualPage = 50
const largestPage = 200
const usualStretch = 10_000

export function deadLetterRecords(options: DeadLettersOptions): DeadLetters {
  const { database, newId, prepare = (call) => call, stretch = usualStretch, mark = createRedactionMark() } = options
  const find = async (id: string, tenant: string): Promise<DeadLetterRow> => {
    const [row] = isDeadLetterId(id) ? await database.asTenant(tenant).query<DeadLetterRow>(getSql, [id, tenant]) : []
    if (row === undefined) throw notFound()
    return row
  }
  /**
   * While the letter is locked neither it nor its call, with all that was done of it, can be removed, and nobody else can
   * deal with it, so that it needs no key, which its caller could have used before.
   */
  const submitAgain = async (deadLetter: DeadLetterRow, by: Identity): Promise<string> => {
    const call = callOf(deadLetter)
    if (call === undefined) throw wrong('holds no call that could be read, or none that is still kept')
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
    if (before === null) throw wrong('was discarded, or what it was to send is no longer kept')
    return before
  }
  return {
    async list({ limit = usualPage, cursor }, reader) {
      const most = Math.min(Math.max(1, limit), largestPage)
      const queries = database.asTenant(tenantOfReader(reader))
      const rows = await listLetters(queries, { reader, from: readCursor(cursor), most: most + 1, stretch })
      const items = rows.slice(0, most).map((row) => deadLetterOf(row))
      const last = rows[most - 1]
      if (last === undefined || rows.length <= most) return { items }
      return { items, cursor: writeCursor({ at: last.place, id: last.id }) }
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
      if (deadLetter.id.startsWith(letterPrefix)) return { callId: await sendAgain(deadLetter, by) }
      return { callId: await submitAgain(deadLetter, by) }
    },
    async discard(id, by) {
      const { redriven_as: before } = await find(id, by.tenant)
      if (before !== null) throw wrong(`was redriven as ${before}`)
      await database.query(discardSql, [id, by.tenant, by.principal])
    },
  }
}

/** The call that an older version handed in, under a key, without saying so on the letter. */
async function handedIn(queries: Queries, { identity, redriveOf }: AdmittedCall): Promise<string | undefined> {
  const { tenant, principal } = identity
  const [row] = await queries.query<{ call_id: string }>(handedInSql, [tenant, principal, redriveOf])
  return row?.call_id
}

async function handIn(queries: Queries, call: AdmittedCall): Promise<string> {
  const [submitted] = await submit(queries, [call], undefined)
  if (submitted?.kind === 'new') return submitted.callId
  throw new ToolError('INTERNAL', 'The id of the new call was taken; redrive the letter again.')
}

type LockedRow = Pick<DeadLetterRow, 'redriven_as' | 'discarded_at'> & { call_id: string }

function notFound(): ToolError {
  return new ToolError('NOT_FOUND', 'There is no dead letter of this id.')
}

function wrong(words: string): ToolError {
  return new ToolError('INPUT_INVALID', `The dead letter ${words}.`, { stage: 'admit' })
}

/** Which letters: so many of those that the reader sees, from a place on. */
interface LetterQuery {
  readonly reader: DeadLetterReader
  readonly from: PageCursor
  readonly most: number
  /** How many letters are looked at at a time, because a sender of messages may have made up as many names of tools. */
  readonly stretch: number
}

/**
 * The newest letters that somebody sees. What a tool is to him only the catalog knows, so that the names of the tools of
 * a stretch of letters are read first, and the statement is told which of them he sees.
 */
async function listLetters(queries: Queries, query: LetterQuery): Promise<readonly DeadLetterRow[]> {
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

/** The end is the last letter of the stretch, and absent when none can follow. */
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
