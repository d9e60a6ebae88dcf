import { hash } from 'node:crypto'
import { type ChainResult, type OutcomeClass, outcomeClassOf, type Result } from '@gantry/contract'
import type { AdmittedCall, ClaimOptions, Ending, Share } from './call-store.ts'

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

/**
 * What a tool passes on so that a repeat is known as one: the same for every attempt and for a call that was handed in
 * again, and of this caller alone.
 */
export function downstreamKey({
  identity,
  key,
  callId,
  effectKey,
}: Pick<AdmittedCall, 'identity' | 'key' | 'callId' | 'effectKey'>): string {
  if (effectKey !== undefined) return effectKey
  if (key === undefined) return callId
  return hash('sha256', JSON.stringify([identity.tenant, identity.principal, key]))
}

/**
 * What the audit log says of an end besides its status and code, as JSON: why the call was denied, that its tool threw,
 * and where its program ran. Undefined when there is nothing to say, which is so for most calls.
 */
export function endDetails(end: Result | ChainResult, reason?: string): string | undefined {
  return detailsText({ reason, outcome: outcomeClassOf(end), runtime: 'runtime' in end ? end.runtime : undefined })
}

interface Details {
  readonly reason?: string | undefined
  readonly outcome: OutcomeClass
  readonly runtime?: Result['runtime'] | undefined
}

/** The status says every outcome but one. */
export function detailsText({ reason, outcome, runtime }: Details): string | undefined {
  const threw = outcome === 'exception' ? outcome : undefined
  if (reason === undefined && threw === undefined && runtime === undefined) return undefined
  return JSON.stringify({ reason, outcome: threw, runtime })
}

/** What a tenant gets: its own share, or that of all who are not named. */
export function shareOf(shares: ClaimOptions['shares'], tenant: string): Share {
  if (shares === undefined) return {}
  return (Object.hasOwn(shares, tenant) ? shares[tenant] : shares['*']) ?? {}
}
