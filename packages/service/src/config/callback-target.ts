import { ToolError } from '@gantry/contract'
import type { Egress, EgressAllow, EgressScope } from '@gantry/core'

/**
 * The egress scope of a callback. The caller chooses its URL, so rules that allow tools private addresses do not apply.
 * With `callbackOrigins`, only these are allowed; without it, public addresses that the egress rules allow, which are
 * all public addresses when there are no rules.
 */
export function callbackScope({ origin }: URL, origins: EgressAllow | undefined): EgressScope {
  const owner = 'callback'
  return origins === undefined ? { owner, own: [origin], publicOnly: true } : { owner, instead: origins }
}

/** Checks a callback before its call is stored: rejects with PAYLOAD_INVALID, or EGRESS_DENIED for a denied origin. */
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

/** One message for all reasons: the caller, who chose the URL, must not learn how its host resolves. */
export function callbackDenied({ origin }: URL, cause: unknown): ToolError {
  const where = 'add it to service.callbackOrigins, with "private": true for a private address'
  return new ToolError('EGRESS_DENIED', `A callback may not go to ${origin}; ${where}.`, { cause, stage: 'admit' })
}

const longest = 2_048

/**
 * Parses the URL of a callback; throws PAYLOAD_INVALID. Only the form is checked here; the egress guard checks the
 * address when something is sent.
 */
export function checkCallbackUrl(text: unknown): URL {
  if (typeof text !== 'string' || text.length > longest) throw wrong(`must be a URL of at most ${longest} characters`)
  // The URL parser would drop or rewrite these characters.
  if (/[^\x21-\x7e]|\\/.test(text)) throw wrong('must be printable ASCII without spaces and backslashes')
  const url = URL.parse(text)
  if (url === null) throw wrong('must be a URL')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw wrong('must begin with https:// or http://')
  if (url.username !== '' || url.password !== '') throw wrong('must not contain a user or a password')
  return url
}

function wrong(message: string): ToolError {
  const issues = [{ path: '/callback', message }]
  return new ToolError('PAYLOAD_INVALID', `The callback ${message}.`, { details: { issues } })
}
