import { type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { createEgress, type Egress, type EgressAllow, type EgressScope } from '@gantry/core'
import { isToolError } from './problem.ts'
import { readDocument } from './schema.ts'
import type { ApprovalWebhook } from './service-settings.ts'

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

/**
 * The egress scope of the webhook of approvals: its own origin alone. The configuration names it, so the rules of tools do
 * not apply; a private address needs `private`, and metadata services are always refused.
 */
export function webhookScope({ origin }: URL, { private: isPrivate = false }: ApprovalWebhook): EgressScope {
  return { owner: 'approvals', instead: [{ origin, private: isPrivate }] }
}

const allowing = 'a private address needs "private": true in approvals.webhook, and metadata services are never reached'

/** A webhook that the egress guard refuses. */
export function webhookDenied({ origin }: URL, cause: unknown): ToolError {
  return new ToolError('EGRESS_DENIED', `The webhook of approvals may not go to ${origin}; ${allowing}.`, { cause })
}

/** A webhook URL of an invalid form, or one that the egress guard would refuse with every message. */
export async function webhookIssues({ approvals }: JsonObject, known: readonly Issue[]): Promise<Issue[]> {
  if (approvals === undefined || known.some(({ path }) => path.startsWith('/approvals'))) return []
  const webhook = readDocument({ approvals })?.approvals?.webhook
  if (webhook === undefined) return []
  const egress = createEgress({})
  try {
    const url = checkCallbackUrl(webhook.url)
    await egress.check({ ...webhookScope(url, webhook), url, method: 'POST' })
    return []
  } catch (error) {
    if (!isToolError(error)) throw error
    const [issue] = error.details?.issues ?? []
    const path = '/approvals/webhook/url'
    if (error.code !== 'EGRESS_DENIED') return [{ path, message: issue?.message ?? error.message }]
    return [{ path, message: `is refused; ${allowing}` }]
  } finally {
    await egress.close()
  }
}
