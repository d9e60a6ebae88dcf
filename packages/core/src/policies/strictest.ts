import type { Isolation } from '@gantry/contract'
import { stronger } from '../runtimes/isolation.ts'
import type { Decision } from './policy.ts'

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
