import { type AuditVerdict, type AuditView, type Identity, type Json, type Paged, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { Database, Queries, TenantReads } from '../databases/database.ts'
import { type PageQuery, pageSize, readNumberCursor, writeNumberCursor } from '../page-cursor.ts'
import { fitsSql, type Reader, seenValues } from '../reader.ts'
import {
  type AuditEntry,
  type AuditRow,
  lastNumberSql,
  lineOf,
  readAudit,
  rowColumns,
  type SealKey,
} from './entries.ts'
import type { Sealer } from './sealer.ts'
import { verifyAudit } from './verify.ts'

/** A filter with a tenant: the caller's own when absent, `*` for all. */
export interface AuditQuery extends AuditFilter {
  readonly tenant?: string
}

/**
 * Queries of the audit log; the route checks the permission to query it at all.
 * - Errors: DENIED for other tenants without `gantry:tenants`, and for the whole record to an identity that is bound to
 *   `tools`; INPUT_INVALID for a query that makes no sense, otherwise the store's.
 */
export interface AuditControl {
  /** Newest first. */
  list(query: AuditQuery & PageQuery, identity: Identity): Promise<Paged<AuditView>>
  /**
   * Lines of JSON, oldest first: the rows of one tenant; or for `*` everything, with the seals, which is what can be
   * verified elsewhere and takes no other condition. Rejects at once when it is not allowed.
   */
  export(query: AuditQuery, identity: Identity, signal: AbortSignal): AsyncGenerator<string, void>
  /** Seals all entries, and then verifies all seals. */
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
      if (identity.tools !== undefined)
        throw new ToolError(
          'DENIED',
          'An identity that is limited to tools cannot export the audit log of all tenants.',
        )
      if (Object.values(filter).every((value) => value === undefined)) return lines(readAudit(database, signal))
      throw new ToolError('INPUT_INVALID', 'An export of all tenants takes no other filter.')
    },
    async verify(head, identity, signal) {
      allowed('*', identity)
      await sealer.seal()
      return verifyAudit(readAudit(database, signal), { keys, head })
    },
  }
}

/** The tenant whose entries are read; undefined for all. */
function allowed(tenant: string | undefined, identity: Identity): string | undefined {
  if (tenant === undefined || tenant === identity.tenant) return identity.tenant
  if (!holds(identity, everyTenant)) {
    throw new ToolError('DENIED', `Reading the audit log of other tenants needs the permission ${everyTenant}.`)
  }
  return tenant === '*' ? undefined : tenant
}

/** Checked times; the database would refuse an invalid date. */
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

/** The phases of entries: of a call, of a refused call, and of an administrator's action. */
export const auditPhases = ['start', 'intent', 'end', 'lost', 'released', 'refused', 'admin', 'redrive', 'discard']

/** Filter of entries; an absent field matches all. */
interface AuditFilter {
  readonly principal?: string
  /** With a version, or without for all versions. */
  readonly tool?: string
  /** A call id; inner calls are included. */
  readonly call?: string
  readonly status?: string
  readonly phase?: string
  /** From `since`, before `until`. */
  readonly since?: string
  readonly until?: string
}

/**
 * The audit log for search. Rows are found by looking at so many at a time; a page may have few rows or none and yet
 * a cursor, because a search through very many is left off for the next page.
 * - Tenants: the rows of one, or of all for the tenant `undefined`, which is for the caller to allow.
 * - Readers: an identity with `tools` sees no rows of tools that are hidden from it, none of administrators' actions,
 *   and of chains and programs only its own.
 */
interface AuditViews {
  /** The newest first. */
  list(query: AuditFilter & PageQuery, whose: Whose): Promise<Paged<AuditView>>
  /** All entries, oldest first, with `details` unparsed. */
  all(filter: AuditFilter, whose: Whose, signal: AbortSignal): AsyncGenerator<AuditRow, void>
}

/** The tenant whose entries are read, and the reader. */
interface Whose {
  readonly tenant: string | undefined
  readonly reader: Reader
}

/** The name of the list in its cursors; it is paged by the number of a row, not by time and id. */
const list = 'audit'

/** Sequence numbers that one statement scans, and statements per page. */
const span = 50_000
const mostSpans = 10
const exportPage = 1_000

function auditViews(database: Queries & TenantReads): AuditViews {
  const rangeOf = async ({ since, until }: AuditFilter): Promise<Range> => {
    const [row] = await database.query<Range>(rangeSql, [since ?? null, until ?? null])
    if (row === undefined) throw new ToolError('INTERNAL', 'The range of the audit log returned no row.')
    return row
  }
  const rowsOf = (tenant: string | undefined): Queries => (tenant === undefined ? database : database.asTenant(tenant))
  return {
    async list({ limit, cursor, ...filter }, whose) {
      const most = pageSize(limit)
      const { low, high } = await rangeOf(filter)
      const found: AuditRow[] = []
      let before = Math.min(high + 1, cursor === undefined ? high + 1 : readNumberCursor(list, cursor))
      for (let spans = 0; spans < mostSpans && found.length < most && before > low; spans++) {
        const from = Math.max(low, before - span)
        const left = most - found.length
        const values = [from, before, left, ...texts(filter, whose)]
        const rows = await rowsOf(whose.tenant).query<AuditRow>(newestSql, values)
        found.push(...rows)
        before = rows.length < left ? from : (rows.at(-1)?.seq ?? from)
      }
      const items = found.map(viewOf)
      return before > low ? { items, cursor: writeNumberCursor(list, before) } : { items }
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

/** Parses JSON; returns the text itself when it is invalid. */
function parsed(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

type Range = { low: number; high: number }

/** Entries are committed before they are sealed, so a seal bounds their time, with an hour of tolerance. */
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
