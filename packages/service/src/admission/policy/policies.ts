import type { Snapshot, Snapshots } from '../../config/snapshots.ts'
import { sqlAudit } from '../../storage/audit/call-audit.ts'
import type { Database } from '../../storage/databases/database.ts'
import type { Chore } from '../../storage/periodic-jobs.ts'
import { policyChannel, policyRecords } from '../../storage/policies.ts'
import { createPolicyControl } from './policy-control.ts'
import type { PolicyControl } from './policy-views.ts'
import { createStoredPolicies } from './stored-policy.ts'

/** Everything about the policy that a process does besides asking it. */
export interface Policies {
  /** A configuration under the policy that is stored. */
  over(base: Snapshot): Snapshot
  /** For the doors. */
  readonly control: PolicyControl
  readonly chores: readonly Chore[]
  close(): Promise<void>
}

export interface PoliciesParts {
  readonly database: Database
  readonly snapshots: Snapshots
}

/** A change is told, but what is told can be lost. */
const lookMs = 5_000

/** Reads what is stored and follows it. Rejects when it cannot be read: nothing may run without it. */
export async function openPolicies({ database, snapshots }: PoliciesParts): Promise<Policies> {
  const records = policyRecords(database)
  const audit = (version: string) => sqlAudit(database, () => version)
  const stored = createStoredPolicies({ records, audit, snapshots: () => snapshots })
  await stored.refresh()
  const unlisten = await database.listen(policyChannel, () => void stored.refresh().catch(() => undefined))
  return {
    over: stored.over,
    control: createPolicyControl({ records, stored, snapshots: () => snapshots }),
    chores: [{ name: 'policy', everyMs: lookMs, work: stored.refresh }],
    close: unlisten,
  }
}
