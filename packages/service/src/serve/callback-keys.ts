import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { LoadedConfig } from '../config/config.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
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
  const key = parseWebhookKey(await ownKey(join(data, 'callback-key')))
  return async () => key
}

async function secretKey(name: string, secrets: LoadedConfig['options']['secrets']): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(5_000)
  const source = secrets as { get?(name: string, request: object): Promise<string | undefined> } | undefined
  const value = typeof source?.get === 'function' ? await source.get(name, { signal }) : undefined
  if (value !== undefined) return parseWebhookKey(value)
  throw new ToolError('SECRET_UNAVAILABLE', `The secret ${name}, which signs callbacks, cannot be had.`)
}

async function ownKey(file: string): Promise<string> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  try {
    await writeFile(file, `whsec_${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  return (await readFile(file, 'utf8')).trim()
}
