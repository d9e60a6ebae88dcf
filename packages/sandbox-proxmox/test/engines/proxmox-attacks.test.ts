import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { type Attack, testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createProxmoxRuntime } from '@gantry/sandbox-proxmox'
import { nodeOptions } from './node.fixture.ts'

const noNetwork = 'A container gets no network: such a sandbox is refused.'
const noBridge = 'Programs have a network of their own with nothing but a loopback, and none of the bridge.'

/** What there is not in such containers, and what Proxmox does not let a container cover. */
const explained: { readonly [number: number]: string } = {
  18: 'Proxmox lets a container without nesting cover nothing below /proc: boot options of the node and names of keys can be read.',
  51: noNetwork,
  52: noNetwork,
  54: noBridge,
  62: noNetwork,
  63: noNetwork,
  64: noNetwork,
}

const attacks = allAttacks.map((attack): Attack => {
  const reason = explained[attack.number]
  return reason === undefined ? attack : { ...attack, explained: { ...attack.explained, proxmox_lxc: reason } }
})

testAttacks('proxmox_lxc', attacks, async () => ({
  runtime: createProxmoxRuntime(nodeOptions()),
  unguarded: createUnsafeHostRuntime(),
}))
