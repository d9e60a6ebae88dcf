import type { ApprovalFile, Identity, Isolation, JsonObject, Tool } from '@gantry/contract'
import type { NamedTool } from '../ids/tool-pattern.ts'
import { stronger } from '../runtimes/runtime.ts'

/** The explanation of a decision. */
interface Grounds {
  /** The name or path of the rule that decided; absent when none did. */
  readonly rule?: string
}

interface Granted extends Grounds {
  /** The least isolation of a program that the call runs; a call that runs outside a sandbox is refused. */
  readonly floor?: Isolation
}

/** The decision on one call. `unavailable` is not a denial: the call does not run, and the caller may retry. */
export type Decision =
  | (Granted & { readonly effect: 'allow'; readonly reason?: string })
  | (Grounds & { readonly effect: 'deny'; readonly reason: string })
  | (Granted & {
      readonly effect: 'ask'
      readonly reason: string
      /** Roles that may approve, in addition to the approvers of the host. */
      readonly approvers?: readonly string[]
    })
  | (Grounds & { readonly effect: 'unavailable'; readonly reason: string; readonly cause?: unknown })

/** The input of a decision; the arguments are already validated. */
export interface PolicyRequest {
  readonly identity: Identity
  readonly id: string
  readonly tool: Tool
  readonly args: JsonObject
}

/** Provides a signal on demand. Reading it has a cost, so read it only before waiting. */
export interface Waiting {
  readonly signal: AbortSignal
}

/**
 * Decides whether an identity may make a call. Called once for every call, including calls of chains and programs.
 * - Concurrency: any number of decisions at once.
 * - Cancellation: a decision that waits must stop on `waiting.signal`.
 * - Errors: a rejection counts as `unavailable`, never as `allow`.
 */
export interface Policy {
  decide(request: PolicyRequest, waiting: Waiting): Decision | Promise<Decision>
  /** Whether discovery shows the tool; without it only permissions hide tools. It grants no right to call. */
  visible?(request: Omit<PolicyRequest, 'args'>): boolean
  /**
   * Whether the tool exists for the identity; otherwise lookups behave as if it did not exist. Called for every call and
   * for every entry that discovery reads, so it must be fast; an error counts as false.
   */
  exists?(identity: Identity, tool: NamedTool): boolean
}

/** The decision of an approver on a call. */
export interface Approval {
  readonly approved: boolean
  readonly by?: string
  /** The caller approved its own call, by this right. */
  readonly self?: 'owner'
  readonly reason?: string
  /** No approver has decided yet: the call ends with APPROVAL_REQUIRED, and a durable host repeats it later. */
  readonly pending?: { readonly id: string; readonly expiresMs: number }
}

/** A call that needs an approval. */
export interface ApprovalRequest extends PolicyRequest {
  readonly callId: string
  /** Digest of the definition that would run. */
  readonly digest: string
  /** Why the call needs an approval. */
  readonly reason: string
  readonly rule?: string
  /** Roles that may approve, in addition to the approvers of the host. */
  readonly approvers?: readonly string[]
  /** How long the call waits for a decision. */
  readonly withinMs: number
  /** The arguments for the approver: exact except for known secrets and members that the tool declares as secret. */
  readonly shown: JsonObject
  /** JSON Pointers to the redacted members of `shown`. */
  readonly hidden: readonly string[]
  /** The files that the arguments reference by id: the approval covers these contents. */
  readonly files: readonly ApprovalFile[]
}

/** Requests approvals. Without an approver, calls that need approval end with APPROVAL_REQUIRED. Same contract as Policy. */
export interface Approver {
  /**
   * The approver stores requests and returns `pending` instead of waiting for a decision. It decides itself when a request
   * expires, so a slow response does not count as a missing decision.
   */
  readonly pends?: boolean
  approve(request: ApprovalRequest, waiting: Waiting): Promise<Approval>
}

/** A denial outranks `unavailable`, so that no caller retries in vain. */
const ranks = { allow: 1, ask: 2, unavailable: 3, deny: 4 } as const

/** The strictness of a decision. */
export function rankOf({ effect }: Decision): number {
  return ranks[effect]
}

/** A result with an unknown effect counts as `unavailable`. */
export function knownDecision(decision: Decision): Decision {
  const sound = typeof decision === 'object' && decision !== null && Object.hasOwn(ranks, decision.effect)
  return sound ? decision : { effect: 'unavailable', reason: 'The policy gave no decision.' }
}

/**
 * Combines two decisions on one call: the stricter one, the first of equals, with the stronger floor of both. When both
 * ask, only approvers of both may approve.
 */
export function strictest(one: Decision, other: Decision): Decision {
  const [first, second] = rankOf(other) > rankOf(one) ? [other, one] : [one, other]
  if (first.effect === 'deny' || first.effect === 'unavailable') return first
  // The second decision is at most as strict, so it may have a floor too.
  const least = ('floor' in second ? second.floor : undefined) ?? first.floor
  const held = least === undefined || least === first.floor ? first : { ...first, floor: higher(first.floor, least) }
  if (held.effect !== 'ask' || second.effect !== 'ask') return held
  const { approvers, ...rest } = held
  const both = approvers?.filter((role) => second.approvers?.includes(role)) ?? []
  return both.length === 0 ? rest : { ...rest, approvers: both }
}

function higher(one: Isolation | undefined, other: Isolation): Isolation {
  return one === undefined ? other : stronger(one, other)
}
