import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { containerRuntime } from '@gantry/sandbox-containers/internal/drivers/container-runtime'
import { createProxmoxApi } from '../api/proxmox-api.ts'
import { createAddressRange, type VmidRange } from '../containers/address-range.ts'
import { openProxmox } from '../containers/proxmox-engine.ts'

/** Which node of Proxmox VE runs sandboxes, and what they are cloned from. */
export interface ProxmoxOptions {
  /** `https://pve.example:8006`. */
  readonly url: string
  /** SHA-256 of the certificate of the API, in place of authorities. */
  readonly fingerprint?: string
  /** Authorities of the API's certificate as PEM; those of the system when absent. */
  readonly ca?: string
  /** `user@realm!name`. */
  readonly tokenId: string
  /** The secret of the token, or a function that finds it. */
  readonly token: string | (() => Promise<string>)
  readonly node: string
  /** The number of the template. */
  readonly template: number
  /** Numbers of containers that are Gantry's alone. */
  readonly vmids: VmidRange
  readonly network: {
    /** A bridge of the node without an uplink, which this machine reaches. */
    readonly bridge: string
    /** The address of the first container with the prefix of its network, such as `10.77.0.16/24`. */
    readonly from: string
  }
  /** The key that the template was made with, or a function that finds it. */
  readonly agentKey: string | (() => Promise<string>)
  /** A pool of Proxmox that containers are put into. */
  readonly pool?: string
  /** How many processors a sandbox may use at a time; one when absent. */
  readonly processors?: number
  readonly languages?: Languages
}

/** Programs in unprivileged containers of Proxmox VE; the API is reached with the first probe or sandbox. */
export function createProxmoxRuntime(options: ProxmoxOptions): Runtime {
  const { token, agentKey, node, template, vmids, network, pool, processors, languages, ...rest } = options
  return containerRuntime(
    {
      kind: 'proxmox_lxc',
      isolation: 'container',
      cost: 2_000,
      hasOwnKernel: false,
      // Proxmox sets no limit on processes. The agent has another uid than the init.
      uidProcesses: 2,
      open: ({ owner }, signal) => {
        const api = createProxmoxApi({ ...rest, node, token: sourceOf(token) })
        const opening = openProxmox(
          {
            api,
            node,
            template,
            owner,
            bridge: network.bridge,
            addresses: createAddressRange(network.from, vmids),
            agentKey: sourceOf(agentKey),
            ...(pool === undefined ? {} : { pool }),
          },
          signal,
        )
        return opening.catch((error: unknown) => {
          api.close()
          throw error
        })
      },
    },
    {
      image: String(template),
      ...(processors === undefined ? {} : { processors }),
      ...(languages === undefined ? {} : { languages }),
    },
  )
}

function sourceOf(given: string | (() => Promise<string>)): () => Promise<string> {
  return typeof given === 'string' ? async () => given : given
}
