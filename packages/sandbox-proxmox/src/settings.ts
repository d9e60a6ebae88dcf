import { readFile } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { type Check, ruled, whole } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { namedSecret, type SecretValues, secretNameOf } from '@gantry/core/internal/secrets/named-secret'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { fingerprintFault } from './api/fingerprint.ts'
import { rangeFault } from './containers/address-range.ts'
import { createProxmoxRuntime, type ProxmoxOptions } from './drivers/proxmox-lxc.ts'

/** A node as configuration says it: secrets as text or as `secret:name`, the authority as a file. */
export interface ProxmoxSettings extends Omit<ProxmoxOptions, 'ca' | 'token' | 'agentKey' | 'languages'> {
  /** A PEM file with the authority of the API's certificate, such as /etc/pve/pve-root-ca.pem. */
  readonly caFile?: string
  readonly token: string
  readonly agentKey: string
}

/** Sandboxes on a node of Proxmox VE; absent, no such runtime is created. */
export interface ProxmoxRuntimesOptions {
  readonly proxmox?: ProxmoxSettings
}

const [shortestKey, longestKey] = [32, 512]
const vmid = whole(100, 999_999_999)
const mostContainers = 4_096

const word = (pattern: string, description: string) => ({ type: 'string', pattern, description })

const members = optionsCheck<ProxmoxSettings>({
  members: {
    url: ruled(urlFault, 'a URL such as https://pve.example:8006'),
    fingerprint: ruled(fingerprintFault),
    caFile: { type: 'string', minLength: 1, description: 'a file' },
    tokenId: word('^[^\\s:/@!=]{1,64}@[A-Za-z][\\w.-]{1,31}![A-Za-z][\\w.-]{1,63}$', 'a token as user@realm!name'),
    token: ruled((value) =>
      /^[\x21-\x7e]{8,256}$/.test(value) ? undefined : 'must be the secret of the token, or secret:name',
    ),
    node: word('^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$', 'the name of a node'),
    template: vmid,
    vmids: {
      type: 'object',
      properties: { first: vmid, last: vmid },
      required: ['first', 'last'],
      additionalProperties: false,
    },
    network: {
      type: 'object',
      properties: {
        bridge: word('^[a-zA-Z][a-zA-Z0-9_]{0,14}$', 'the name of a bridge of the node'),
        from: { type: 'string', maxLength: 18, description: 'an address such as 10.77.0.16/24' },
      },
      required: ['bridge', 'from'],
      additionalProperties: false,
    },
    agentKey: ruled((value) => (secretNameOf(value) === undefined ? keyFault(value) : undefined)),
    pool: word('^[A-Za-z0-9][\\w.-]{0,63}(?:/[A-Za-z0-9][\\w.-]{0,63}){0,2}$', 'the name of a pool'),
    processors: { type: 'number', exclusiveMinimum: 0, maximum: 128, description: 'a number above 0, at most 128' },
  },
  required: ['url', 'tokenId', 'token', 'node', 'template', 'vmids', 'network', 'agentKey'],
})

/** The check of `ProxmoxRuntimesOptions`. */
export const proxmoxChecks: { readonly proxmox: Check } = {
  proxmox: {
    schema: members.schema,
    fits: (value) => members.fits(value) && together(value).length === 0,
    issues: (value, path) => {
      const found = members.issues(value, path)
      return found.length > 0 ? found : together(value).map((issue) => ({ ...issue, path: `${path}${issue.path}` }))
    },
  },
}

/** What two members together must keep to; called with a value whose members are right. */
function together(value: unknown): readonly { readonly path: string; readonly message: string }[] {
  const { vmids, network, template, fingerprint, caFile } = value as ProxmoxSettings
  const count = vmids.last - vmids.first + 1
  if (count < 1 || count > mostContainers) {
    return [{ path: '/vmids/last', message: `must make a range of 1 to ${mostContainers} with first` }]
  }
  if (template >= vmids.first && template <= vmids.last) {
    return [{ path: '/template', message: 'must be outside of vmids, whose containers are removed' }]
  }
  const fault = rangeFault(network.from, count)
  if (fault !== undefined) return [{ path: '/network/from', message: fault }]
  if (fingerprint === undefined || caFile === undefined) return []
  return [{ path: '/caFile', message: 'cannot be together with fingerprint, which takes its place' }]
}

function urlFault(value: string): string | undefined {
  const url = URL.parse(value)
  if (url === null || url.protocol !== 'https:') return 'must be a URL such as https://pve.example:8006'
  if (url.username !== '' || url.password !== '') return 'must not hold credentials; use tokenId and token'
  return url.pathname === '/' && url.search === '' && url.hash === '' ? undefined : 'must end after the port'
}

function keyFault(value: string): string | undefined {
  const fits = value.length >= shortestKey && value.length <= longestKey && /^[\x21-\x7e]*$/.test(value)
  return fits ? undefined : `must be secret:name, or ${shortestKey} to ${longestKey} printable characters`
}

/** Creates the runtime of a configured node. The authority is read now, secrets with the first request. */
export async function openProxmoxRuntime(
  { caFile, token, agentKey, ...rest }: ProxmoxSettings,
  secrets?: SecretValues,
  languages?: Languages,
): Promise<Runtime> {
  return createProxmoxRuntime({
    ...rest,
    token: sourceOf(token, 'the secret of its token', secrets),
    agentKey: sourceOf(agentKey, 'the key of its template', secrets, keyFault),
    ...(caFile === undefined ? {} : { ca: await readAuthority(caFile) }),
    ...(languages === undefined ? {} : { languages }),
  })
}

/** The agent key as it is configured, for the one who makes the template. */
export async function agentKeyOf({ agentKey }: ProxmoxSettings, secrets?: SecretValues): Promise<string> {
  return sourceOf(agentKey, 'the key of its template', secrets, keyFault)()
}

function sourceOf(
  setting: string,
  what: string,
  secrets: SecretValues | undefined,
  fault: (value: string) => string | undefined = () => undefined,
): () => Promise<string> {
  const name = secretNameOf(setting)
  if (name === undefined) return async () => setting
  return async () => {
    const found = (await namedSecret(secrets, name))?.trim()
    if (found === undefined) {
      const message = `The secret ${name}, ${what} for runtimes.proxmox, is in no source; add it under secrets or to the secret store.`
      throw new ToolError('SECRET_UNAVAILABLE', message)
    }
    const wrong = fault(found)
    if (wrong !== undefined) throw new ToolError('CONFIG_INVALID', `The secret ${name} ${wrong}.`)
    return found
  }
}

async function readAuthority(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    const issues = [{ path: '/runtimes/proxmox/caFile', message: 'cannot be read' }]
    throw new ToolError('CONFIG_INVALID', `The file ${file} of /runtimes/proxmox/caFile cannot be read.`, {
      cause,
      details: { issues },
    })
  })
}

/** Whether options of runtimes name a node. */
export function hasProxmox(options: unknown): options is { readonly proxmox: ProxmoxSettings } {
  return isObject(options) && isObject(options.proxmox) && isText(options.proxmox.url)
}
