import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { LoadedConfig } from '../config/config.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { ensureKey } from '../http/api-key.ts'
import { parseWebhookKey } from '../reply/signature.ts'

/**
 * What callbacks are signed with: the secret that the configuration names, or a key of the service's own, made when it
 * first starts and kept beside its API key. Receivers need it: `whsec_` and base64, as Standard Webhooks writes it.
 */
export async function callbackKeys(
  { callbackSecret, data }: ServiceSettings,
  { options }: LoadedConfig,
): Promise<(tenant: string) => Promise<Uint8Array | undefined>> {
  if (callbackSecret !== undefined) return () => secretKey(callbackSecret, options.secrets)
  const key = parseWebhookKey((await ensureKey(join(data, 'callback-key'), keyForm, newKey)).key)
  return async () => key
}

const keyForm = /^whsec_[A-Za-z0-9+/]{43}=$/

function newKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

async function secretKey(name: string, secrets: LoadedConfig['options']['secrets']): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(5_000)
  const source = secrets as { get?(name: string, request: object): Promise<string | undefined> } | undefined
  const value = typeof source?.get === 'function' ? await source.get(name, { signal }) : undefined
  if (value !== undefined) return parseWebhookKey(value)
  throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name}, which signs callbacks, cannot be had.`)
}
