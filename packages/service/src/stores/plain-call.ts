import type { AdmittedCall, Ending } from './call-store.ts'

/** For the ending of a call, what the store would else look up; nothing where its end sets others going. */
export function plainOf({ tool, identity, key, callback, reply, slot }: AdmittedCall): Pick<Ending, 'plain'> {
  if (callback !== undefined || slot !== undefined) return {}
  const { principal } = identity
  const keyed = key === undefined ? {} : { keyed: true as const }
  const answered = reply === undefined ? {} : { reply: { transport: reply.transport, to: reply.to } }
  return { plain: { tool, principal, ...keyed, ...answered } }
}
