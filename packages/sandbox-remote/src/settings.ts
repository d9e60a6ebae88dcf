import { readFile } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'
import { type Check, listOf, ruled, text } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { namedSecret, type SecretValues, secretNameOf } from '@gantry/core/internal/secrets/named-secret'
import type { ClientTls } from './client/host-client.ts'
import { createRemoteRuntime, type RemoteOptions } from './client/remote.ts'
import { keyIdMember, keyRule, urlFault } from './protocol/address.ts'

/** One host as configuration says it: the key as text or as `secret:name`, certificates as files. */
export interface RemoteSettings {
  /** `https://host:7421`; `http:` for this machine alone. */
  readonly url: string
  readonly keyId: string
  readonly key: string
  /** PEM files: authorities other than those of the system, and a certificate with its key for mutual TLS. */
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string }
}

/** Runtimes on other hosts; absent, none is created. */
export interface RemoteRuntimesOptions {
  readonly remote?: readonly RemoteSettings[]
}

const host = optionsCheck<RemoteSettings>({
  members: {
    url: ruled(urlFault, 'a URL such as https://host:7421'),
    keyId: keyIdMember,
    key: ruled((value) => (secretNameOf(value) === undefined ? keyRule(value) : undefined), 'a string'),
    tls: {
      type: 'object',
      properties: { caFile: text(), certFile: text(), keyFile: text() },
      dependentRequired: { certFile: ['keyFile'], keyFile: ['certFile'] },
      additionalProperties: false,
    },
  },
  required: ['url', 'keyId', 'key'],
})

/** The check of `RemoteRuntimesOptions`. */
export const remoteChecks: { readonly remote: Check } = { remote: someOf(listOf(host)) }

function someOf(list: Check): Check {
  const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0
  return {
    schema: list.schema,
    fits: (value) => !isEmpty(value) && list.fits(value),
    issues: (value, path) =>
      isEmpty(value) ? [{ path, message: 'must have at least one host' }] : list.issues(value, path),
  }
}

/** Creates the runtime of configured hosts. Certificates are read now, keys with the first request. */
export async function openRemoteRuntime(list: readonly RemoteSettings[], secrets?: SecretValues): Promise<Runtime> {
  const options = list.map(
    async ({ url, keyId, key, tls }, index): Promise<RemoteOptions> => ({
      url,
      keyId,
      key: keyOf(key, url, secrets),
      ...(tls === undefined ? {} : { tls: await readTls(tls, `/runtimes/remote/${index}/tls`) }),
    }),
  )
  return createRemoteRuntime(await Promise.all(options))
}

function keyOf(key: string, url: string, secrets: SecretValues | undefined): RemoteOptions['key'] {
  const name = secretNameOf(key)
  return name === undefined ? key : () => secretKey(name, url, secrets)
}

async function secretKey(name: string, url: string, secrets: SecretValues | undefined): Promise<string> {
  const found = await namedSecret(secrets, name)
  if (found === undefined) {
    const message = `The secret ${name}, the key of the remote host ${new URL(url).host}, is in no source; add it under secrets or to the secret store.`
    throw new ToolError('SECRET_UNAVAILABLE', message)
  }
  const key = found.trim()
  const fault = keyRule(key)
  if (fault === undefined) return key
  throw new ToolError('CONFIG_INVALID', `The secret ${name} ${fault}.`)
}

async function readTls(
  { caFile, certFile, keyFile }: NonNullable<RemoteSettings['tls']>,
  path: string,
): Promise<ClientTls> {
  const read = async (name: string, file: string | undefined): Promise<{ readonly [key: string]: string }> => {
    if (file === undefined) return {}
    const pem = await readFile(file, 'utf8').catch((cause: unknown) => {
      const issues = [{ path: `${path}/${name}File`, message: 'cannot be read' }]
      throw new ToolError('CONFIG_INVALID', `The file ${file} of ${path}/${name}File cannot be read.`, {
        cause,
        details: { issues },
      })
    })
    return { [name]: pem }
  }
  return { ...(await read('ca', caFile)), ...(await read('cert', certFile)), ...(await read('key', keyFile)) }
}
