import { type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { createEgress, type EgressScope } from '@gantry/core'
import { checkCallbackUrl } from './callback-target.ts'
import { isToolError } from './problem.ts'
import { readDocument } from './schema.ts'
import type { ApprovalWebhook } from './service-settings.ts'

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
