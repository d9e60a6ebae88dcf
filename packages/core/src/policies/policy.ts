import type { ApprovalFile, Identity, Isolation, JsonObject, Tool } from '@gantry/contract'
import type { NamedTool } from '../ids/tool-pattern.ts'
import { stronger } from '../runtimes/runtime.ts'

/** What of a decision is there to explain it, and to hold the call to. */
interface Grounds {
  /** Which rule decided, in words that its author finds it by; absent when none did. */
  readonly rule?: string
}

interface Granted extends Grounds {
  /** A program that the call runs must be isolated at least so; a call that runs none in a sandbox is refused then. */
  readonly floor?: Isolation
}

/** What a policy says of one call. `unavailable` is not a denial: nothing runs, and the caller may try again. */
export type Decision =
  | (Granted & { readonly effect: 'allow'; readonly reason?: string })
  | (Grounds & { readonly effect: 'deny'; readonly reason: string })
  | (Granted & {
      readonly effect: 'ask'
      readonly reason: string
      /** Roles that may answer besides those who always may. */
      readonly approvers?: readonly string[]
    })
  | (Grounds & { readonly effect: 'unavailable'; readonly reason: string; readonly cause?: unknown })

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
  /**
   * Whether a tool of this name is there for the identity; where it is not, it is as if there were none. Asked with
   * every call and every entry that discovery looks at, so it must be quick; what it throws counts as no.
   */
  exists?(identity: Identity, tool: NamedTool): boolean
}

/** A person's answer to a call that a policy or a tool wants approved. */
export interface Approval {
  readonly approved: boolean
  readonly by?: string
  /** It was the caller itself that approved, and by which right. */
  readonly self?: 'owner'
  readonly reason?: string
  /** Nobody has answered yet: the call ends with APPROVAL_REQUIRED, and whoever keeps calls makes it again later. */
  readonly pending?: { readonly id: string; readonly expiresMs: number }
}

/** A call that somebody must approve. */
export interface ApprovalRequest extends PolicyRequest {
  readonly callId: string
  /** Of the definition that would run. */
  readonly digest: string
  /** Why somebody must. */
  readonly reason: string
  readonly rule?: string
  /** Roles that may answer besides those who always may. */
  readonly approvers?: readonly string[]
  /** For how long an answer is waited for. */
  readonly withinMs: number
  /** The arguments as the person sees them: exact but for known secrets and members that the tool declares as secret. */
  readonly shown: JsonObject
  /** JSON Pointers to what is hidden in `shown`. */
  readonly hidden: readonly string[]
  /** The files that the arguments name by their ids: an approval is of these contents. */
  readonly files: readonly ApprovalFile[]
}

/** Asks a person. Without one, calls that need approval end with APPROVAL_REQUIRED. Same contract as Policy. */
export interface Approver {
  /**
   * It keeps questions and answers `pending` instead of waiting for a person, so that how long one may take is its own to
   * tell: a slow answer of its own does not count as nobody's.
   */
  readonly pends?: boolean
  approve(request: ApprovalRequest, waiting: Waiting): Promise<Approval>
}

/** A denial is certain whatever else cannot be said, so that nobody is told to try again in vain. */
const ranks = { allow: 1, ask: 2, unavailable: 3, deny: 4 } as const

/** How strict a decision is. */
export function rankOf({ effect }: Decision): number {
  return ranks[effect]
}

/** A policy that answers anything but the four words has not allowed the call. */
export function knownDecision(decision: Decision): Decision {
  const sound = typeof decision === 'object' && decision !== null && Object.hasOwn(ranks, decision.effect)
  return sound ? decision : { effect: 'unavailable', reason: 'The policy gave no decision.' }
}

/**
 * What two decisions on one call come to: the stricter one, the earlier of equals, with the stronger floor of both. Of
 * two that ask, only who may answer both may answer.
 */
export function strictest(one: Decision, other: Decision): Decision {
  const [first, second] = rankOf(other) > rankOf(one) ? [other, one] : [one, other]
  if (first.effect === 'deny' || first.effect === 'unavailable') return first
  // The other one is no stricter, so that it may have a floor as well.
  const { floor: least = first.floor } = second as typeof first
  const held = least === undefined || least === first.floor ? first : { ...first, floor: higher(first.floor, least) }
  if (held.effect !== 'ask' || second.effect !== 'ask') return held
  const { approvers, ...rest } = held
  const both = approvers?.filter((role) => second.approvers?.includes(role)) ?? []
  return both.length === 0 ? rest : { ...rest, approvers: both }
}

function higher(one: Isolation | undefined, other: Isolation): Isolation {
  return one === undefined ? other : stronger(one, other)
}
