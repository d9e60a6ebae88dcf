import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { type AuditVerdict, type AuditView, type Identity, type Json, type Paged, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { PageQuery } from '../call-input.ts'
import type { Database, Queries, TenantReads } from '../databases/database.ts'
import { fitsSql, type Reader, seenValues } from '../reader.ts'
import {
  type AuditEntry,
  type AuditRow,
  lastNumberSql,
  lineOf,
  readAudit,
  rowColumns,
  type Seal,
  type SealKey,
} from './entries.ts'
import type { Sealer } from './sealer.ts'
import { type ReadEntry, verifyAudit } from './verify.ts'

/** With the tenant that is asked for: the caller's own when absent, `*` for all. */
export interface AuditQuery extends AuditFilter {
  readonly tenant?: string
}

/**
 * What may be asked of the audit record; that somebody may ask at all is checked by the door.
 * - Errors: DENIED for other tenants to whoever does not hold `gantry:tenants`, and for the whole record to one who is bound
 *   to `tools`; INPUT_INVALID for a query that makes no
 *   sense, otherwise the store's.
 */
export interface AuditControl {
  /** The newest first. */
  list(query: AuditQuery & PageQuery, identity: Identity): Promise<Paged<AuditView>>
  /**
   * Lines of JSON, oldest first: the rows of one tenant; or for `*` everything, with the seals, which is what can be
   * verified elsewhere and takes no other condition. Rejects at once when it may not be had.
   */
  export(query: AuditQuery, identity: Identity, signal: AbortSignal): AsyncGenerator<string, void>
  /** Seals what is there, and then looks whether all of it is as it was sealed. */
  verify(head: string | undefined, identity: Identity, signal: AbortSignal): Promise<AuditVerdict>
}

const everyTenant = 'gantry:tenants'

export function createAuditControl(
  database: Database,
  { sealer, keys }: { readonly sealer: Sealer; readonly keys: readonly SealKey[] },
): AuditControl {
  const views = auditViews(database)
  return {
    async list({ tenant, ...query }, identity) {
      return views.list({ ...query, ...timesOf(query) }, { tenant: allowed(tenant, identity), reader: identity })
    },
    export({ tenant, ...filter }, identity, signal) {
      const whose = allowed(tenant, identity)
      if (whose !== undefined) {
        const rows = views.all({ ...filter, ...timesOf(filter) }, { tenant: whose, reader: identity }, signal)
        return lines(rowEntries(rows))
      }
      if (identity.tools !== undefined) throw new ToolError('DENIED', 'The whole record is for those without tools.')
      if (Object.values(filter).every((value) => value === undefined)) return lines(readAudit(database, signal))
      throw new ToolError('INPUT_INVALID', 'The whole record is exported without other conditions.')
    },
    async verify(head, identity, signal) {
      allowed('*', identity)
      await sealer.seal()
      return verifyAudit(readAudit(database, signal), { keys, head })
    },
  }
}

/** Whose rows: of one tenant, or undefined for all. */
function allowed(tenant: string | undefined, identity: Identity): string | undefined {
  if (tenant === undefined || tenant === identity.tenant) return identity.tenant
  if (!holds(identity, everyTenant)) {
    throw new ToolError('DENIED', `The audit record of other tenants is for those who hold ${everyTenant}.`)
  }
  return tenant === '*' ? undefined : tenant
}

/** Times as the database reads them; it would refuse a day that is none. */
function timesOf({ since, until }: AuditFilter): Pick<AuditFilter, 'since' | 'until'> {
  return {
    ...(since !== undefined && { since: iso(since, 'since') }),
    ...(until !== undefined && { until: iso(until, 'until') }),
  }
}

function iso(text: string, name: string): string {
  const time = new Date(text)
  if (!Number.isNaN(time.getTime())) return time.toISOString()
  const message = 'must be a time, such as 2026-01-31T12:00:00Z'
  throw new ToolError('INPUT_INVALID', `The query is wrong: /${name} ${message}.`, {
    details: { issues: [{ path: `/${name}`, message }] },
  })
}

async function* rowEntries(rows: AsyncIterable<AuditRow>): AsyncGenerator<AuditEntry, void> {
  for await (const row of rows) yield { kind: 'row', ...row }
}

async function* lines(entries: AsyncIterable<AuditEntry>): AsyncGenerator<string, void> {
  for await (const entry of entries) yield `${lineOf(entry)}\n`
}

/** What rows of the record tell of: a call's way, one that was not taken in, and what somebody did to the service. */
export const auditPhases = [
  ...['start', 'intent', 'end', 'lost', 'released', 'refused'],
  ...['admin', 'redrive', 'discard'],
]

/** Which rows; what is absent does not matter. */
interface AuditFilter {
  readonly principal?: string
  /** With its version, or without for all of them. */
  readonly tool?: string
  /** With the calls inside it. */
  readonly call?: string
  readonly status?: string
  readonly phase?: string
  /** From this time on, and before that one. */
  readonly since?: string
  readonly until?: string
}

/**
 * The audit record for search. Rows are found by looking at so many at a time; a page may have few rows or none and yet
 * a cursor, because a search through very many is left off for the next page.
 * - Tenants: the rows of one, or of all for the tenant `undefined`, which is for the caller to allow.
 * - Readers: for one with `tools`, rows of tools that are not there for him are not there either, nor what was done to the
 *   service, nor of chains and programs those of others.
 */
interface AuditViews {
  /** The newest first. */
  list(query: AuditFilter & PageQuery, whose: Whose): Promise<Paged<AuditView>>
  /** All of them, oldest first, with `details` as they are. */
  all(filter: AuditFilter, whose: Whose, signal: AbortSignal): AsyncGenerator<AuditRow, void>
}

/** Whose rows, and who reads them. */
interface Whose {
  readonly tenant: string | undefined
  readonly reader: Reader
}

const usualPage = 50
const largestPage = 200
/** Numbers that one statement looks at, and statements for one page. */
const span = 50_000
const mostSpans = 10
const exportPage = 1_000

function auditViews(database: Queries & TenantReads): AuditViews {
  const rangeOf = async ({ since, until }: AuditFilter): Promise<Range> => {
    const [row] = await database.query<Range>(rangeSql, [since ?? null, until ?? null])
    return row as Range
  }
  const rowsOf = (tenant: string | undefined): Queries => (tenant === undefined ? database : database.asTenant(tenant))
  return {
    async list({ limit = usualPage, cursor, ...filter }, whose) {
      const most = Math.min(Math.max(1, limit), largestPage)
      const { low, high } = await rangeOf(filter)
      const found: AuditRow[] = []
      let before = Math.min(high + 1, cursor === undefined ? high + 1 : readCursor(cursor))
      for (let spans = 0; spans < mostSpans && found.length < most && before > low; spans++) {
        const from = Math.max(low, before - span)
        const left = most - found.length
        const values = [from, before, left, ...texts(filter, whose)]
        const rows = await rowsOf(whose.tenant).query<AuditRow>(newestSql, values)
        found.push(...rows)
        before = rows.length < left ? from : (rows.at(-1)?.seq ?? from)
      }
      const items = found.map(viewOf)
      return before > low ? { items, cursor: writeCursor(before) } : { items }
    },
    async *all(filter, whose, signal) {
      const { low, high } = await rangeOf(filter)
      for (let from = low; from <= high; ) {
        signal.throwIfAborted()
        const before = from + span
        const values = [from, before, exportPage, ...texts(filter, whose)]
        const rows = await rowsOf(whose.tenant).query<AuditRow>(oldestSql, values)
        yield* rows
        from = rows.length < exportPage ? before : (rows.at(-1)?.seq ?? before) + 1
      }
    },
  }
}

function texts(filter: AuditFilter, { tenant, reader }: Whose): (string | null)[] {
  const { principal, tool, call, status, phase, since, until } = filter
  const asked = [tenant, principal, tool, call, status, phase, since, until].map((text) => text ?? null)
  return [...asked, ...seenValues(reader)]
}

function viewOf({ details, worker, status, code, config, ...row }: AuditRow): AuditView {
  return {
    ...row,
    ...(worker !== null && { worker }),
    ...(status !== null && { status }),
    ...(code !== null && { code }),
    ...(config !== null && { config }),
    ...(details !== null && { details: parsed(details) }),
  }
}

/** The text itself when somebody wrote something else than JSON. */
function parsed(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function writeCursor(before: number): string {
  return Buffer.from(`audit ${before}`).toString('base64url')
}

function readCursor(cursor: string): number {
  const [, before] = /^audit (\d{1,15})$/.exec(Buffer.from(cursor.slice(0, 100), 'base64url').toString()) ?? []
  if (before !== undefined) return Number(before)
  const message = 'is not a cursor that this list gave'
  throw new ToolError('INPUT_INVALID', `The cursor ${message}; start again without it.`, {
    details: { issues: [{ path: '/cursor', message }] },
  })
}

type Range = { low: number; high: number }

/** Rows were committed before they were sealed, so those of earlier seals are older; the other way round, within an hour. */
const rangeSql = `
  select
    greatest(
      coalesce((select min(seq) from audit where seq > 0 and seq <= ${lastNumberSql}), 1),
      coalesce((select upto_seq + 1 from audit_seals where sealed_at < $1::timestamptz order by sealed_at desc limit 1), 1)
    ) as low,
    least(
      coalesce((select max(seq) from audit where seq <= ${lastNumberSql}), 0),
      (select upto_seq from audit_seals where sealed_at > $2::timestamptz + interval '1 hour' order by sealed_at limit 1)
    ) as high`

function searchSql(order: 'asc' | 'desc'): string {
  return `
  select ${rowColumns} from audit
  where seq >= $1 and seq < $2
    and ($4::text is null or tenant = $4)
    and ($5::text is null or principal = $5)
    and ($6::text is null or tool = $6 or starts_with(tool, $6 || ':'))
    and ($7::text is null or call_id = $7 or starts_with(call_id, $7 || '.'))
    and ($8::text is null or status = $8)
    and ($9::text is null or phase = $9)
    and ($10::timestamptz is null or at >= $10)
    and ($11::timestamptz is null or at < $11)
    and ($12::text is null or phase <> 'admin' and ${fitsSql('tool', '$12')}
      and (principal = $13::text or tool !~* '^(chain$|code:program(:|$))'))
  order by seq ${order} limit $3`
}

const newestSql = searchSql('desc')
const oldestSql = searchSql('asc')

/**
 * What an export wrote, read back line by line. What a line says is for who verifies to judge, and so is one that no export
 * writes like this, with a member twice or one too many; one that is neither a row nor a seal rejects with INPUT_INVALID,
 * which names it.
 */
export async function* readAuditFile(file: string, signal: AbortSignal): AsyncGenerator<ReadEntry, void> {
  const input = createReadStream(file, { signal })
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  let number = 0
  try {
    for await (const line of lines) {
      number += 1
      const entry = entryIn(line)
      if (entry === undefined) throw new ToolError('INPUT_INVALID', `Line ${number} of ${file} is no row and no seal.`)
      yield lineOf(entry) === line ? entry : { ...entry, oddLine: number }
    }
  } finally {
    lines.close()
    input.destroy()
  }
}

const rowTexts = ['at', 'tenant', 'principal', 'callId', 'phase', 'tool'] as const satisfies (keyof AuditRow)[]
const rowMaybes = ['worker', 'status', 'code', 'config', 'details'] as const satisfies (keyof AuditRow)[]
const sealNumbers = ['n', 'afterSeq', 'uptoSeq'] as const satisfies (keyof Seal)[]
const sealTexts = ['prev', 'digests', 'sealedAt', 'hash'] as const satisfies (keyof Seal)[]

function entryIn(line: string): AuditEntry | undefined {
  try {
    const entry = JSON.parse(line)
    return isRow(entry) || isSeal(entry) || isStray(entry) ? entry : undefined
  } catch {
    return undefined
  }
}

type Read = { readonly [name: string]: unknown }

function isRow(entry: Read): boolean {
  const { kind, seq, fence } = entry
  const texts = rowTexts.every((name) => isText(entry[name]))
  const maybes = rowMaybes.every((name) => isText(entry[name]) || entry[name] === null)
  return kind === 'row' && Number.isSafeInteger(seq) && fence === (Number(fence) | 0) && texts && maybes
}

function isStray({ kind, seq }: Read): boolean {
  return kind === 'stray' && typeof seq === 'string' && /^-?\d{1,19}$/.test(seq)
}

/** Half a character would be hashed as another one. */
function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed()
}

function isSeal(entry: Read): boolean {
  const { kind, keyId, seqs } = entry
  const numbers = sealNumbers.every((name) => Number.isSafeInteger(entry[name]))
  const texts = sealTexts.every((name) => typeof entry[name] === 'string')
  const list = Array.isArray(seqs) && seqs.every((seq) => Number.isSafeInteger(seq))
  return kind === 'seal' && numbers && texts && list && (keyId === null || typeof keyId === 'string')
}
