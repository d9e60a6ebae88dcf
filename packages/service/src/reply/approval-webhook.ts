import { type ApprovalMessage, type ApprovalView, parseWebhookKey, ToolError } from '@gantry/contract'
import type { Egress } from '@gantry/core'
import { checkCallbackUrl, webhookDenied, webhookScope } from '../config/callback-target.ts'
import type { LoadedConfig } from '../config/config.ts'
import { secretText } from '../config/secret-sources.ts'
import type { ApprovalSettings, ApprovalWebhook } from '../config/service-settings.ts'
import type { ApprovalRecords, News } from '../storage/approvals/approvals.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import type { Send } from './relay.ts'
import { postSigned } from './signed-post.ts'

interface ApprovalWebhookOptions {
  readonly egress: Pick<Egress, 'request'>
  /** The settings at the moment, because a reload changes them. */
  readonly settings: () => ApprovalSettings
  readonly key: () => Promise<Uint8Array | undefined>
  readonly approvals: Pick<ApprovalRecords, 'news'>
  /** The timeout of one attempt; 10 s. */
  readonly timeoutMs?: number
}

/**
 * Posts news of an approval to the webhook, as callbacks are posted. Arguments are JSON inside JSON, never text between
 * other text, so that no argument can pass for a part of the message.
 */
export function createApprovalSender({
  egress,
  settings,
  key,
  approvals,
  timeoutMs = 10_000,
}: ApprovalWebhookOptions): Send {
  return (item, signal) => {
    const { webhook, link } = settings()
    return postSigned(
      {
        egress,
        timeoutMs,
        async message() {
          const { url, ...rest } = configured(webhook)
          const { approval: id, what } = newsOf(item)
          const approval = await approvals.news(id, item.tenant)
          if (approval === undefined) throw new ToolError('NOT_FOUND', 'The approval is no longer stored.')
          return {
            id: `${item.callId}_${item.id}`,
            url,
            scope: webhookScope(url, rest.webhook),
            tenant: item.tenant,
            body: JSON.stringify(messageOf(approval, { tenant: item.tenant, what, link })),
            key: await key(),
          }
        },
        denied: (error) => webhookDenied(configured(webhook).url, error).message,
        failed: 'The message about the approval could not be sent.',
      },
      signal,
    )
  }
}

/** Retried, because another process may have another configuration, or this one is corrected. */
function configured(webhook: ApprovalWebhook | undefined): { readonly url: URL; readonly webhook: ApprovalWebhook } {
  if (webhook !== undefined) return { url: checkCallbackUrl(webhook.url), webhook }
  const message = 'This process has no approvals.webhook; give every process the same configuration.'
  throw new ToolError('CONFIG_INVALID', message)
}

function newsOf({ body = '{}' }: OutboxItem): { readonly approval: string; readonly what: News } {
  const { approval, what }: { approval?: unknown; what?: unknown } = JSON.parse(body)
  return { approval: String(approval), what: what === 'decided' ? 'decided' : 'requested' }
}

interface About {
  readonly tenant: string
  readonly what: News
  readonly link: string | undefined
}

/** Commands and link hold only the id, which the service makes of letters, digits, `_` and `-`. */
export function messageOf(approval: ApprovalView, { tenant, what, link }: About): ApprovalMessage {
  const { id, state } = approval
  const type = what === 'requested' || state === 'open' || state === 'void' ? 'requested' : state
  const commands = {
    show: `gantry approvals show ${id}`,
    approve: `gantry approvals approve ${id}`,
    deny: `gantry approvals deny ${id} --reason TEXT`,
  }
  return {
    type: `approval.${type}`,
    tenant,
    approval,
    ...(state === 'open' ? { commands } : {}),
    ...(link === undefined ? {} : { link: link.replaceAll('{id}', id) }),
  }
}

/** The signing key of the webhook: the secret that the configuration names, or the key of callbacks. */
export function approvalKey(
  latest: () => LoadedConfig,
  callbackKey: (tenant: string) => Promise<Uint8Array | undefined>,
): () => Promise<Uint8Array | undefined> {
  return async () => {
    const { options, service } = latest()
    const { secret } = service.approvals.webhook ?? {}
    if (secret === undefined) return callbackKey('')
    return parseWebhookKey(await secretText(secret, options.secrets, 'signs messages about approvals'))
  }
}
