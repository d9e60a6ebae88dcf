import { ToolError } from '@gantry/contract'
import type { Egress, EgressAllow, EgressScope } from '@gantry/core'

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

const longest = 2_048

/**
 * The URL of a callback as its caller gave it, or PAYLOAD_INVALID. Only its form is judged; where it leads is judged by
 * the egress guard when something is sent there.
 */
export function checkCallbackUrl(text: unknown): URL {
  if (typeof text !== 'string' || text.length > longest) throw wrong(`must be a URL of at most ${longest} characters`)
  // What URL parsing would leave out or turn into something else is not what its writer meant.
  if (/[^\x21-\x7e]|\\/.test(text)) throw wrong('must be written in printable ASCII without spaces and backslashes')
  const url = URL.parse(text)
  if (url === null) throw wrong('must be a URL')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw wrong('must begin with https:// or http://')
  if (url.username !== '' || url.password !== '') throw wrong('must not hold a user or a password')
  return url
}

function wrong(message: string): ToolError {
  const issues = [{ path: '/callback', message }]
  return new ToolError('PAYLOAD_INVALID', `The callback ${message}.`, { details: { issues } })
}
