import type { Identity, JsonObject, Tool } from '@gantry/contract'

/** What a policy says of one call. `unavailable` is not a denial: nothing runs, and the caller may try again. */
export type Decision =
  | { readonly effect: 'allow'; readonly reason?: string }
  | { readonly effect: 'deny'; readonly reason: string }
  | { readonly effect: 'ask'; readonly reason: string }
  | { readonly effect: 'unavailable'; readonly reason: string; readonly cause?: unknown }

/** All a decision may rest on; the arguments are already valid. */
export interface PolicyRequest {
  readonly identity: Identity
  readonly id: string
  readonly tool: Tool
  readonly args: JsonObject
}

/** Gives a signal to those who ask for one; asking costs, so ask only before waiting. */
export interface Waiting {
  readonly signal: AbortSignal
}

/**
 * Decides whether an identity may make a call. Asked once for every call, chained and generated ones too.
 * - Concurrency: any number of decisions at once.
 * - Cancellation: a decision that waits must stop on `waiting.signal`.
 * - Errors: a rejection counts as `unavailable`, never as `allow`.
 */
export interface Policy {
  decide(request: PolicyRequest, waiting: Waiting): Decision | Promise<Decision>
  /** Whether discovery shows the tool; absent means that only permissions hide tools. It grants nothing. */
  visible?(request: Omit<PolicyRequest, 'args'>): boolean
}

/** A person's answer to a call that a policy or a tool wants approved. */
export interface Approval {
  readonly approved: boolean
  readonly by?: string
  readonly reason?: string
}

/** Asks a person. Without one, calls that need approval end with APPROVAL_REQUIRED. Same contract as Policy. */
export interface Approver {
  approve(request: PolicyRequest & { readonly reason: string }, waiting: Waiting): Promise<Approval>
}
