import { sharedMemoryBytes } from '@gantry/sandbox-containers/internal/engines/container-policy'
import type { ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import type { ApiParameters } from '../api/proxmox-api.ts'
import type { AddressRange } from './address-range.ts'
import type { AgentParameters } from './guest-agent.ts'

/** Memory of the agent and the init in addition to that of programs. */
const extraBytes = 64 * 2 ** 20
const leastBytes = 128 * 2 ** 20
const mebibyte = 2 ** 20
/** Ids in a container reach to 65,535; those below 1,000 are Debian's. */
const [firstUid, uids] = [1_000, 60_000]

/** The one policy of all containers: what the template says in addition was checked. */
export function configOf(
  { memoryBytes, diskBytes, processors, owner }: ContainerSpec,
  vmid: number,
  { bridge, addresses }: { readonly bridge: string; readonly addresses: AddressRange },
): ApiParameters {
  const { address, prefix, hardware } = addresses.of(vmid)
  return {
    memory: Math.ceil(Math.max(memoryBytes + diskBytes + extraBytes, leastBytes) / mebibyte),
    swap: 0,
    cores: Math.max(1, Math.ceil(processors)),
    cpulimit: processors,
    // The bridge has no uplink, the container no gateway, and its programs can make no network socket.
    net0: `name=eth0,bridge=${bridge},hwaddr=${hardware},ip=${address}/${prefix},type=veth`,
    tags: `gantry;gantry-owner-${owner}`,
    onboot: false,
    protection: false,
    console: false,
    tty: 0,
  }
}

/** What the agent gets by its connection. */
export function parametersOf(spec: ContainerSpec): AgentParameters {
  return {
    uid: firstUid + (spec.uid % uids),
    workBytes: Math.max(Math.floor(spec.diskBytes), 4_096),
    sharedBytes: sharedMemoryBytes(spec),
  }
}
