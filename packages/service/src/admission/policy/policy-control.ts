import { type Identity, ToolError } from '@gantry/contract'
import { rules } from '@gantry/core'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { Snapshots } from '../../config/snapshots.ts'
import { everyTenant } from '../../storage/keys/key-grant.ts'
import type { PolicyRecords } from '../../storage/policies.ts'
import type { PolicyControl, PolicyTest } from './policy-views.ts'
import type { StoredPolicies } from './stored-policy.ts'

export interface PolicyControlParts {
  readonly records: Pick<PolicyRecords, 'add'>
  readonly stored: StoredPolicies
  readonly snapshots: () => Pick<Snapshots, 'current' | 'use'>
}

/** Looks after the policy, for those who hold `gantry:policy`, which the door has checked. */
export function createPolicyControl({ records, stored, snapshots }: PolicyControlParts): PolicyControl {
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
