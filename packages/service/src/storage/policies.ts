import { type Identity, ToolError } from '@gantry/contract'
import type { Rule, RulesOptions } from '@gantry/core'
import { noteAudit } from './audit/entries.ts'
import type { Database } from './databases/database.ts'

/** A policy document. */
export interface PolicyDocument extends RulesOptions {
  readonly rules: readonly Rule[]
}

/** A policy that was set over the API. */
export interface StoredPolicy {
  /** Counts up from 1. */
  readonly version: number
  readonly document: PolicyDocument
  readonly createdAt: string
  readonly createdBy: string
}

/**
 * The policies in the table `policies`: rows are only added, and the newest counts. Adding one notifies the channel
 * `gantry_policy` and writes an audit entry, in the same transaction.
 * - Errors: the database's; STORE_UNAVAILABLE too when others add at the same time again and again.
 */
export interface PolicyRecords {
  /** The newest policy, when it is newer than a version. */
  since(version: number): Promise<StoredPolicy | undefined>
  /** Adds a policy as the newest; the caller must have checked it. */
  add(document: PolicyDocument, by: Identity): Promise<StoredPolicy>
}

export const policyChannel = 'gantry_policy'
const mostTries = 10

export function policyRecords(database: Database): PolicyRecords {
  const addOnce = (document: PolicyDocument, by: Identity): Promise<PolicyRow | undefined> =>
    database.transaction(async (queries) => {
      const [row] = await queries.query<PolicyRow>(insertSql, [JSON.stringify(document), by.principal, by.tenant])
      if (row === undefined) return undefined
      const { tenant, principal } = by
      const details = { rules: document.rules.length, default: document.default ?? 'deny' }
      await noteAudit(queries, { tenant, principal, action: 'policy.set', target: `policy ${row.version}`, details })
      await queries.query('select pg_notify($1, $2)', [policyChannel, String(row.version)])
      return row
    })
  return {
    async since(version) {
      const [row] = await database.query<PolicyRow>(sinceSql, [version])
      return row === undefined ? undefined : policyOf(row)
    },
    async add(document, by) {
      for (let tries = 0; tries < mostTries; tries += 1) {
        const row = await addOnce(document, by)
        if (row !== undefined) return policyOf(row)
      }
      throw new ToolError('STORE_UNAVAILABLE', 'The policy is being changed concurrently; try again.')
    },
  }
}

type PolicyRow = { version: number; document: string; created_at: Date; created_by: string }

function policyOf({ version, document, created_at, created_by }: PolicyRow): StoredPolicy {
  return { version, document: JSON.parse(document), createdAt: created_at.toISOString(), createdBy: created_by }
}

const columns = 'version, document, created_at, created_by'
const sinceSql = `select ${columns} from policies where version > $1 order by version desc limit 1`
/** Of two concurrent inserts one conflicts on the version and is retried. */
const insertSql = `
  insert into policies (version, document, created_by, created_for)
  select coalesce(max(version), 0) + 1, $1, $2, $3 from policies
  on conflict (version) do nothing
  returning ${columns}`
