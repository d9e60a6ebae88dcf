import { hash } from 'node:crypto'
import { createRedactor } from '@gantry/core/internal/json/redact'
import type { Queries } from '../databases/database.ts'
import { storable } from '../storable.ts'

/** What somebody did to the service itself: a key made, a policy changed, an approval decided, a call cancelled. */
export interface AuditNote {
  readonly tenant: string
  /** Who did it. */
  readonly principal: string
  /** What was done, as a word or two with a dot between, such as `keys.revoke`. */
  readonly action: string
  /** The id of what it was done to: of a call where there is one, so that the note is found with the call. */
  readonly target: string
  /** Anything else worth keeping, as JSON; members whose key sounds like a secret are hidden, with length and digest. */
  readonly details?: { readonly [name: string]: unknown }
}

const longestText = 500
const longestDetails = 8_192
const redactor = createRedactor()

/**
 * Puts a note on the audit record. Given the queries of a transaction, the note is there exactly when what it tells of is,
 * which is how it should be called.
 * - Errors: the database's; whoever notes before he acts must not act then.
 */
export async function noteAudit(queries: Queries, note: AuditNote): Promise<void> {
  const { tenant, principal, action, target, details } = note
  const texts = [tenant, principal, target, action].map((text) => storable(text.slice(0, longestText)))
  await queries.query(noteSql, [...texts, details === undefined ? null : detailsOf(details)])
}

function detailsOf(details: object): string {
  const text = storable(JSON.stringify(redactor.value(JSON.parse(JSON.stringify(details)))))
  return text.length <= longestDetails ? text : JSON.stringify({ omitted: text.length, sha256: hash('sha256', text) })
}

const noteSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, details)
  values ($1, $2, $3, 0, 'admin', $4, $5)`
