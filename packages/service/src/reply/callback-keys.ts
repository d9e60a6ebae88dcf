import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LoadedConfig } from '../config/config.ts'
import { ensureKey } from '../config/key-file.ts'
import { secretText } from '../config/secret-text.ts'
import { parseWebhookKey } from './signature.ts'

/**
 * What callbacks are signed with: the secret that the configuration names now, or a key of the service's own, made when
 * it is first needed and kept beside its API key. Receivers need it: `whsec_` and base64, as Standard Webhooks writes it.
 */
export async function callbackKeys(
  latest: () => LoadedConfig,
): Promise<(tenant: string) => Promise<Uint8Array | undefined>> {
  let own: Promise<Uint8Array> | undefined
  const key = async (): Promise<Uint8Array> => {
    const { options, service } = latest()
    const { callbackSecret, data } = service
    if (callbackSecret !== undefined) {
      return parseWebhookKey(await secretText(callbackSecret, options.secrets, 'signs callbacks'))
    }
    own ??= ensureKey(join(data, 'callback-key'), keyForm, newKey).then((kept) => parseWebhookKey(kept.key))
    return own
  }
  // A folder that cannot be written to is found out at the start, not with the first callback.
  if (latest().service.callbackSecret === undefined) await key()
  return key
}

const keyForm = /^whsec_[A-Za-z0-9+/]{43}=$/

function newKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
