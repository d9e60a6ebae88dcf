import type { Identity, JsonObject } from '@gantry/contract'
import type { Explanation } from '@gantry/core'
import type { PolicyDocument, StoredPolicy } from '../../storage/policies.ts'

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
