import { type Decision, knownDecision, type Policy, type PolicyRequest, strictest, type Waiting } from './policy.ts'

/**
 * Several policies as one: the strictest decision counts, and a call passes only when all of them let it. A tool is
 * there, and shown, only where it is for all. Undefined when there are none, which is cheaper than one that allows all.
 */
export function allOf(...given: readonly (Policy | undefined)[]): Policy | undefined {
  const policies = given.filter((policy) => policy !== undefined)
  if (policies.length < 2) return policies[0]
  const existing = policies.filter(({ exists }) => exists !== undefined)
  return {
    decide(request, waiting) {
      const decisions = policies.map((policy) => decisionOf(policy, request, waiting))
      if (decisions.some((decision) => decision instanceof Promise)) return Promise.all(decisions).then(together)
      return together(decisions as Decision[])
    },
    visible: (request) => policies.every((policy) => policy.visible?.(request) ?? true),
    ...(existing.length === 0
      ? {}
      : { exists: (identity, tool) => existing.every((policy) => policy.exists?.(identity, tool) ?? true) }),
  }
}

/** The same policy, whose rules go by its name and their own. */
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

/** A policy that fails has not allowed the call, and does not keep another one from denying it. */
function decisionOf(policy: Policy, request: PolicyRequest, waiting: Waiting): Decision | Promise<Decision> {
  const failed = (cause: unknown): Decision => ({ effect: 'unavailable', reason: 'The policy failed.', cause })
  try {
    const decision = policy.decide(request, waiting)
    return decision instanceof Promise ? decision.then(knownDecision, failed) : knownDecision(decision)
  } catch (error) {
    return failed(error)
  }
}

function together(decisions: readonly Decision[]): Decision {
  return decisions.reduce(strictest)
}
