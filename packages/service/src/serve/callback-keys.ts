import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LoadedConfig } from '../config/config.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { ensureKey } from '../http/api-key.ts'
import { parseWebhookKey } from '../reply/signature.ts'
import { secretText } from './secret-text.ts'

/**
 * What callbacks are signed with: the secret that the configuration names, or a key of the service's own, made when it
 * first starts and kept beside its API key. Receivers need it: `whsec_` and base64, as Standard Webhooks writes it.
 */
export async function callbackKeys(
  { callbackSecret, data }: ServiceSettings,
  { options }: LoadedConfig,
): Promise<(tenant: string) => Promise<Uint8Array | undefined>> {
  if (callbackSecret !== undefined) {
    return async () => parseWebhookKey(await secretText(callbackSecret, options.secrets, 'signs callbacks'))
  }
  const key = parseWebhookKey((await ensureKey(join(data, 'callback-key'), keyForm, newKey)).key)
  return async () => key
}

const keyForm = /^whsec_[A-Za-z0-9+/]{43}=$/

function newKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
