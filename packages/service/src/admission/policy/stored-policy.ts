import { type Audit, type Policy, rules } from '@gantry/core'
import { named as namedPolicy } from '@gantry/core/internal/policies/all-of'
import type { Snapshot, Snapshots } from '../../config/snapshots.ts'
import type { PolicyRecords, StoredPolicy } from '../../storage/policies.ts'

/** The stored policy at work. */
export interface StoredPolicies {
  /** The one in force here; undefined while none was ever set. */
  readonly current: StoredPolicy | undefined
  /** The configuration under the stored policy; what was made of an earlier configuration is not renewed any more. */
  over(base: Snapshot): Snapshot
  /** Reads what is stored and, when it is newer, lets later calls see it. Rejects when it cannot be read. */
  refresh(): Promise<void>
}

export interface StoredPoliciesOptions {
  readonly records: Pick<PolicyRecords, 'since'>
  /** The record of calls under a version of the configuration. */
  readonly audit: (version: string) => Audit
  readonly snapshots: () => Pick<Snapshots, 'replace'>
}

/**
 * Puts the policy that was set over the API under every snapshot: what the configuration says, narrowed by it. A new one
 * is a new snapshot of the same configuration, whose executor all of its snapshots share, so that a change of policy
 * restarts no backend and does not depend on the file being sound just then.
 */
export function createStoredPolicies({ records, audit, snapshots }: StoredPoliciesOptions): StoredPolicies {
  let current: StoredPolicy | undefined
  let policy: Policy | undefined
  let shared: SharedBase | undefined
  let reading: Promise<void> = Promise.resolve()

  const snapshot = (base: SharedBase): Snapshot => {
    const version = current === undefined ? base.version : `${base.version}+p${current.version}`
    const executor = base.executor.under({ policy, audit: audit(version) })
    return { executor: { ...executor, close: base.hold() }, version }
  }
  const read = async (): Promise<void> => {
    const found = await records.since(current?.version ?? 0)
    // Another reading cannot have come first, but a policy of this process may be older than what it finds.
    if (found === undefined || found.version <= (current?.version ?? 0)) return
    policy = policyOf(found)
    current = found
    if (shared === undefined) return
    snapshots().replace(snapshot(shared))
  }
  return {
    get current() {
      return current
    },
    over(base) {
      shared = share(base)
      return snapshot(shared)
    },
    refresh() {
      const mine = reading.then(read)
      reading = mine.catch(() => undefined)
      return mine
    },
  }
}

interface SharedBase extends Snapshot {
  /** Counts one more user, and gives the function that ends it. */
  hold(): Snapshot['executor']['close']
}

/** A snapshot whose executor is closed with the last of those that use it. */
function share(base: Snapshot): SharedBase {
  let users = 0
  const release: Snapshot['executor']['close'] = async (how) => {
    users -= 1
    if (users === 0) await base.executor.close(how)
  }
  return {
    ...base,
    hold() {
      users += 1
      let ended: Promise<void> | undefined
      return (how) => {
        ended ??= release(how)
        return ended
      }
    },
  }
}

/** What this version of Gantry cannot read was written by another one; nothing runs on a guess of what it says. */
function policyOf({ version, document }: StoredPolicy): Policy {
  try {
    const { rules: list, ...options } = document
    return namedPolicy('stored', rules(list, options))
  } catch (cause) {
    const reason = `The stored policy, version ${version}, is not understood here.`
    return { decide: () => ({ effect: 'unavailable', reason, cause }) }
  }
}
