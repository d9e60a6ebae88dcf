import { type AuditView, type Json, type Paged, ToolError } from '@gantry/contract'
import type { PageQuery } from '../call-input.ts'
import type { Queries, TenantReads } from '../databases/database.ts'
import { fitsSql, type Reader, seenValues } from '../reader.ts'
import { type AuditRow, lastNumberSql, rowColumns } from './audit-rows.ts'

/** What rows of the record tell of: a call's way, one that was not taken in, and what somebody did to the service. */
export const auditPhases = [
  ...['start', 'intent', 'end', 'lost', 'released', 'refused'],
  ...['admin', 'redrive', 'discard'],
]

/** Which rows; what is absent does not matter. */
export interface AuditFilter {
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
export interface AuditViews {
  /** The newest first. */
  list(query: AuditFilter & PageQuery, whose: Whose): Promise<Paged<AuditView>>
  /** All of them, oldest first, with `details` as they are. */
  all(filter: AuditFilter, whose: Whose, signal: AbortSignal): AsyncGenerator<AuditRow, void>
}

/** Whose rows, and who reads them. */
export interface Whose {
  readonly tenant: string | undefined
  readonly reader: Reader
}

const usualPage = 50
const largestPage = 200
/** Numbers that one statement looks at, and statements for one page. */
const span = 50_000
const mostSpans = 10
const exportPage = 1_000

export function auditViews(database: Queries & TenantReads): AuditViews {
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
