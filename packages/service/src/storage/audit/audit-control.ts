import { type AuditVerdict, type AuditView, type Identity, type Paged, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { PageQuery } from '../call-input.ts'
import type { Database } from '../databases/database.ts'
import { lineOf } from './audit-line.ts'
import { type AuditEntry, readAudit } from './audit-reader.ts'
import type { AuditRow } from './audit-rows.ts'
import { type AuditFilter, auditViews } from './audit-views.ts'
import type { Sealer } from './sealer.ts'
import type { SealKey } from './seals.ts'
import { verifyAudit } from './verify.ts'

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
