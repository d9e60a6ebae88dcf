import { type Audit, type Policy, rules } from '@gantry/core'
import { named as namedPolicy } from '@gantry/core/internal/policies/all-of'
import type { Snapshot, Snapshots } from '../../config/snapshots.ts'
import type { PolicyRecords, StoredPolicy } from '../../storage/policies.ts'

/** The stored policy in force. */
export interface StoredPolicies {
  /** The policy in force in this process; undefined while none was ever set. */
  readonly current: StoredPolicy | undefined
  /** Applies the stored policy to a configuration. Snapshots of an earlier configuration are not renewed any more. */
  over(base: Snapshot): Snapshot
  /**
   * Reads the stored policy and, when it is newer, makes it current for later calls. Rejects when it cannot be read.
   */
  refresh(): Promise<void>
}

export interface StoredPoliciesOptions {
  readonly records: Pick<PolicyRecords, 'since'>
  /** The audit log of calls under a version of the configuration. */
  readonly audit: (version: string) => Audit
  readonly snapshots: () => Pick<Snapshots, 'replace'>
}

/**
 * Applies the policy that was set over the API to every snapshot: it narrows the policy of the configuration. A new
 * stored policy makes a new snapshot of the same configuration, and all snapshots of a configuration share its
 * executor. So a change of policy restarts no backend, and does not depend on the configuration file being valid at
 * that moment.
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
  /** Counts one more user, and returns the function that releases it. */
  hold(): Snapshot['executor']['close']
}

/** A snapshot whose executor closes with its last user. */
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

/**
 * A document that this version cannot parse was written by another version of Gantry; nothing runs on a guess of its
 * meaning.
 */
function policyOf({ version, document }: StoredPolicy): Policy {
  try {
    const { rules: list, ...options } = document
    return namedPolicy('stored', rules(list, options))
  } catch (cause) {
    const reason = `The stored policy, version ${version}, cannot be parsed by this version of Gantry.`
    return { decide: () => ({ effect: 'unavailable', reason, cause }) }
  }
}
