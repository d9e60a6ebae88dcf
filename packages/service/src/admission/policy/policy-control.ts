import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { type Explanation, rules } from '@gantry/core'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { Snapshot, Snapshots } from '../../config/snapshots.ts'
import { sqlAudit } from '../../storage/audit/audit-log.ts'
import type { Database } from '../../storage/databases/database.ts'
import { everyTenant } from '../../storage/keys/key-grant.ts'
import type { PeriodicJob } from '../../storage/periodic-jobs.ts'
import {
  type PolicyDocument,
  type PolicyRecords,
  policyChannel,
  policyRecords,
  type StoredPolicy,
} from '../../storage/policies.ts'
import { createStoredPolicies, type StoredPolicies } from './stored-policy.ts'

interface PolicyControlParts {
  readonly records: Pick<PolicyRecords, 'add'>
  readonly stored: StoredPolicies
  readonly snapshots: () => Pick<Snapshots, 'current' | 'use'>
}

/** Looks after the policy, for those who hold `gantry:policy`, which the door has checked. */
function createPolicyControl({ records, stored, snapshots }: PolicyControlParts): PolicyControl {
  const read: PolicyControl['read'] = async (identity) => {
    refuseOneOfMany(identity)
    await stored.refresh()
    const { current } = stored
    return { version: snapshots().current.version, ...(current === undefined ? {} : { stored: current }) }
  }
  return {
    read,
    async replace({ rules: list, default: otherwise }, identity) {
      refuseOneOfMany(identity)
      const options = otherwise === undefined ? {} : { default: otherwise }
      rules(list, options)
      await records.add({ rules: list, ...options }, identity)
      return read(identity)
    },
    async test(input, asker, signal) {
      const identity = testedIdentity(input, asker)
      return snapshots().use(async ({ executor, version }) => ({
        version,
        ...(await executor.explain(input.tool, input.args, { identity, asker, signal })),
      }))
    },
  }
}

/** The policy is of all tenants, so that it is not for one of them to read or to set. */
function refuseOneOfMany(identity: Identity): void {
  if (holds(identity, everyTenant)) return
  throw new ToolError('DENIED', `The policy is of all tenants; whoever reads or sets it must hold ${everyTenant}.`)
}

/** Who is asked about: the asker himself, as far as nothing else is said. */
function testedIdentity({ tenant, principal, permissions, roles, tools }: PolicyTest, asker: Identity): Identity {
  if (tenant !== undefined && tenant !== asker.tenant && !holds(asker, everyTenant)) {
    throw new ToolError('DENIED', `To ask about callers of another tenant, hold ${everyTenant}.`)
  }
  const other = tenant !== undefined || principal !== undefined
  const own: Partial<Identity> = other ? {} : asker
  const named = { principal: principal ?? asker.principal, tenant: tenant ?? asker.tenant }
  const held = { roles: roles ?? own.roles, tools: tools ?? own.tools }
  return {
    ...named,
    permissions: permissions ?? own.permissions ?? [],
    ...(held.roles === undefined ? {} : { roles: held.roles }),
    ...(held.tools === undefined ? {} : { tools: held.tools }),
  }
}

/** The policy as it is at work. */
export interface PolicyView {
  /** Of the snapshot that calls see now, as it stands in the audit. */
  readonly version: string
  /** What was set over the API; what the configuration says stands in its file. */
  readonly stored?: StoredPolicy
}

/** A call that somebody asks about; who would make it is the asker, as far as nothing else is said. */
export interface PolicyTest {
  readonly tool: string
  readonly args?: JsonObject
  readonly principal?: string
  readonly tenant?: string
  /** None, for somebody else of whom nothing is said. */
  readonly permissions?: readonly string[]
  readonly roles?: readonly string[]
  readonly tools?: readonly string[]
}

/** The answer to it, and by which version. */
export interface PolicyAnswer extends Explanation {
  readonly version: string
}

/**
 * Looks after the policy.
 * - Errors: DENIED for what is of other tenants, CONFIG_INVALID with paths, TOOL_NOT_FOUND.
 */
export interface PolicyControl {
  read(identity: Identity): Promise<PolicyView>
  /** Makes a policy the one in force: here when it resolves, elsewhere as soon as others hear of it. */
  replace(document: PolicyDocument, identity: Identity): Promise<PolicyView>
  /** What would be decided on a call, and why; nothing runs. */
  test(test: PolicyTest, asker: Identity, signal: AbortSignal): Promise<PolicyAnswer>
}

/** Everything about the policy that a process does besides asking it. */
export interface Policies {
  /** A configuration under the policy that is stored. */
  over(base: Snapshot): Snapshot
  /** For the doors. */
  readonly control: PolicyControl
  readonly jobs: readonly PeriodicJob[]
  close(): Promise<void>
}

interface PoliciesParts {
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
    jobs: [{ name: 'policy', everyMs: lookMs, work: stored.refresh }],
    close: unlisten,
  }
}
