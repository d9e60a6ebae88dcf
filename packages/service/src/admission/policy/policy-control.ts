import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import { type Explanation, rules } from '@gantry/core'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { Snapshot, Snapshots } from '../../config/snapshots.ts'
import { sqlAudit } from '../../storage/audit/audit-log.ts'
import type { Database } from '../../storage/databases/database.ts'
import { everyTenant, type KeyRecords, keyRecords } from '../../storage/keys/api-keys.ts'
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
  readonly keys: Pick<KeyRecords, 'get'>
  readonly stored: StoredPolicies
  readonly snapshots: () => Pick<Snapshots, 'current' | 'use'>
}

/** Reads and sets the policy. The route has checked that the caller holds `gantry:policy`. */
function createPolicyControl({ records, keys, stored, snapshots }: PolicyControlParts): PolicyControl {
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
      const identity = input.key === undefined ? testedIdentity(input, asker) : await keyIdentity(keys, input, asker)
      return snapshots().use(async ({ executor, version }) => ({
        version,
        ...(await executor.explain(input.tool, input.args, { identity, asker, signal })),
      }))
    },
  }
}

/** The policy applies to all tenants, so a caller of one tenant may neither read nor set it. */
function refuseOneOfMany(identity: Identity): void {
  if (holds(identity, everyTenant)) return
  throw new ToolError(
    'DENIED',
    `The policy applies to all tenants; to read or set it the caller must hold ${everyTenant}.`,
  )
}

/** The identity of the tested call: the caller's own, unless another tenant or principal is given. */
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

/** The identity that a live key gives to its calls. */
async function keyIdentity(keys: Pick<KeyRecords, 'get'>, input: PolicyTest, asker: Identity): Promise<Identity> {
  const { key: id = '', principal, tenant: of, permissions: granted, roles: given, tools: listed } = input
  if ([principal, of, granted, given, listed].some((one) => one !== undefined)) {
    throw keyProblem('has principal, tenant, permissions, roles and tools of its own; leave them out')
  }
  const key = await keys.get(id, holds(asker, everyTenant) ? undefined : asker.tenant)
  if (key.state !== 'live') throw keyProblem(`is ${key.state}: a call with this key would end as UNAUTHENTICATED`)
  const { tenant, permissions, roles, tools } = key
  return { principal: key.principal, tenant, permissions, roles, ...(tools === undefined ? {} : { tools }) }
}

function keyProblem(message: string): ToolError {
  const issues = [{ path: '/key', message }]
  return new ToolError('INPUT_INVALID', `The key of the test ${message}.`, { stage: 'admit', details: { issues } })
}

/** The policy in force. */
export interface PolicyView {
  /** The version of the current snapshot, as in the audit log. */
  readonly version: string
  /** The policy that was set over the API; that of the configuration is in its file. */
  readonly stored?: StoredPolicy
}

/** A call to test the policy with; it is the caller's own, unless another tenant or principal is given. */
export interface PolicyTest {
  readonly tool: string
  readonly args?: JsonObject
  /** The id of a key whose caller is tested; excludes the members below. */
  readonly key?: string
  readonly principal?: string
  readonly tenant?: string
  /** When absent: the caller's own permissions for the caller, none for another principal. */
  readonly permissions?: readonly string[]
  readonly roles?: readonly string[]
  readonly tools?: readonly string[]
}

/** The decision, and the version of the policy that made it. */
export interface PolicyAnswer extends Explanation {
  readonly version: string
}

/**
 * Reads, sets and tests the policy.
 * - Errors: DENIED for other tenants, CONFIG_INVALID with paths, TOOL_NOT_FOUND; NOT_FOUND and INPUT_INVALID for a key.
 */
export interface PolicyControl {
  read(identity: Identity): Promise<PolicyView>
  /** Puts a policy in force: in this process when it resolves, in others when their notification arrives. */
  replace(document: PolicyDocument, identity: Identity): Promise<PolicyView>
  /** The decision on a call, and its reason; nothing runs. */
  test(test: PolicyTest, asker: Identity, signal: AbortSignal): Promise<PolicyAnswer>
}

/** The policy of a running process. */
export interface Policies {
  /** Applies the stored policy to a configuration. */
  over(base: Snapshot): Snapshot
  /** For the routes. */
  readonly control: PolicyControl
  readonly jobs: readonly PeriodicJob[]
  close(): Promise<void>
}

interface PoliciesParts {
  readonly database: Database
  readonly snapshots: Snapshots
}

/** The interval of polling, because a notification can be lost. */
const lookMs = 5_000

/** Reads the stored policy and follows its changes. Rejects when it cannot be read: no call may run without it. */
export async function openPolicies({ database, snapshots }: PoliciesParts): Promise<Policies> {
  const records = policyRecords(database)
  const audit = (version: string) => sqlAudit(database, () => version)
  const stored = createStoredPolicies({ records, audit, snapshots: () => snapshots })
  await stored.refresh()
  const unlisten = await database.listen(policyChannel, () => void stored.refresh().catch(() => undefined))
  return {
    over: stored.over,
    control: createPolicyControl({ records, keys: keyRecords(database), stored, snapshots: () => snapshots }),
    jobs: [{ name: 'policy', everyMs: lookMs, work: stored.refresh }],
    close: unlisten,
  }
}
