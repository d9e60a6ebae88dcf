import { type Decision, knownDecision, type Policy, type PolicyRequest, strictest, type Waiting } from './policy.ts'

/**
 * Combines policies: the strictest decision wins, so a call is allowed only when all policies allow it. A tool exists and
 * is visible only when it is for every policy. Undefined without policies, which is cheaper than a policy that allows all.
 */
export function allOf(...given: readonly (Policy | undefined)[]): Policy | undefined {
  const policies = given.filter((policy) => policy !== undefined)
  if (policies.length < 2) return policies[0]
  const existing = policies.filter(({ exists }) => exists !== undefined)
  return {
    decide(request, waiting) {
      const decisions = policies.map((policy) => decisionOf(policy, request, waiting))
      return decisions.every(isMade) ? together(decisions) : Promise.all(decisions).then(together)
    },
    visible: (request) => policies.every((policy) => policy.visible?.(request) ?? true),
    ...(existing.length === 0
      ? {}
      : { exists: (identity, tool) => existing.every((policy) => policy.exists?.(identity, tool) ?? true) }),
  }
}

/** Prefixes the rule of each decision with the name of the policy. */
export function named(name: string, policy: Policy): Policy {
  const rename = (said: Decision): Decision =>
    said?.rule === undefined ? said : { ...said, rule: `${name} ${said.rule}` }
  return {
    ...policy,
    decide(request, waiting) {
      const decision = policy.decide(request, waiting)
      return decision instanceof Promise ? decision.then(rename) : rename(decision)
    },
  }
}

/** A failing policy makes the call unavailable, and another policy can still deny it. */
function decisionOf(policy: Policy, request: PolicyRequest, waiting: Waiting): Decision | Promise<Decision> {
  const failed = (cause: unknown): Decision => ({ effect: 'unavailable', reason: 'The policy failed.', cause })
  try {
    const decision = policy.decide(request, waiting)
    return decision instanceof Promise ? decision.then(knownDecision, failed) : knownDecision(decision)
  } catch (error) {
    return failed(error)
  }
}

function isMade(decision: Decision | Promise<Decision>): decision is Decision {
  return !(decision instanceof Promise)
}

function together(decisions: readonly Decision[]): Decision {
  return decisions.reduce(strictest)
}
