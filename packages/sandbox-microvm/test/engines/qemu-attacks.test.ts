import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { type Attack, testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { qemuOptions } from './machines.fixture.ts'

const noNetwork = 'A virtual machine has no network device: a sandbox with a network is refused.'

/** What there is not in a machine without a network. */
const explained: { readonly [number: number]: string } = {
  51: noNetwork,
  52: noNetwork,
  54: noNetwork,
  62: noNetwork,
  63: noNetwork,
  64: noNetwork,
}

const attacks = allAttacks.map((attack): Attack => {
  const reason = explained[attack.number]
  return reason === undefined ? attack : { ...attack, explained: { ...attack.explained, qemu: reason } }
})

testAttacks('qemu', attacks, async () => ({
  runtime: createQemuRuntime(qemuOptions()),
  unguarded: createUnsafeHostRuntime(),
}))
