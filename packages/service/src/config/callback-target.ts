import { ToolError } from '@gantry/contract'
import type { Egress, EgressAllow, EgressScope } from '@gantry/core'
import { checkCallbackUrl } from './callback-url.ts'

/**
 * Where a callback may go. Whoever makes a call chooses its URL, so that rules which let tools reach private addresses are
 * not for it: with a list of their own callbacks go there and nowhere else, without one to public addresses that the rules
 * allow, which are all of them when there are no rules.
 */
export function callbackScope({ origin }: URL, origins: EgressAllow | undefined): EgressScope {
  const owner = 'callback'
  return origins === undefined ? { owner, own: [origin], publicOnly: true } : { owner, instead: origins }
}

/** Judges a callback before its call is kept: rejects with PAYLOAD_INVALID, or EGRESS_DENIED where none could ever go. */
export async function checkCallback(
  text: unknown,
  origins: EgressAllow | undefined,
  egress: Pick<Egress, 'check'>,
): Promise<void> {
  const url = checkCallbackUrl(text)
  try {
    await egress.check({ ...callbackScope(url, origins), url, method: 'POST' })
  } catch (error) {
    throw ToolError.is(error) && error.code === 'EGRESS_DENIED' ? callbackDenied(url, error) : error
  }
}

/** One text for all reasons: why a name leads nowhere is not for whoever chose it. */
export function callbackDenied({ origin }: URL, cause: unknown): ToolError {
  const where = 'service.callbackOrigins says where callbacks go, with "private": true for private addresses'
  return new ToolError('EGRESS_DENIED', `A callback may not go to ${origin}; ${where}.`, { cause, stage: 'admit' })
}
