import type { AdmittedCall, Ending } from './call-store.ts'

/**
 * Whether the key of a call is free again once it ended: an open circuit kept it from starting, so that a repeat under the
 * key is a new call and not the old answer. A message of a broker may be delivered again at any time, so its key stays.
 */
export function freesKey({ result: { error }, plain }: Ending): boolean {
  return error?.code === 'CIRCUIT_OPEN' && error.effect === 'none' && plain?.reply === undefined
}

/** For the ending of a call, what the store would else look up; nothing where its end sets others going. */
export function plainOf({ tool, identity, key, callback, reply, slot }: AdmittedCall): Pick<Ending, 'plain'> {
  if (callback !== undefined || slot !== undefined) return {}
  const { principal } = identity
  const keyed = key === undefined ? {} : { keyed: true as const }
  const answered = reply === undefined ? {} : { reply: { transport: reply.transport, to: reply.to } }
  return { plain: { tool, principal, ...keyed, ...answered } }
}
