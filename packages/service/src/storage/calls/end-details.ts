import { type ChainResult, type OutcomeClass, outcomeClassOf, type Result } from '@gantry/contract'

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
