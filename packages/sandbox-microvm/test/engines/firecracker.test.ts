import { after } from 'node:test'
import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createFirecrackerRuntime } from '@gantry/sandbox-microvm'
import { createContract } from '../contract.fixture.ts'

/** Firecracker needs KVM, which the machines of the tests do not have: a contract server has its place. */
const contract = createContract()
after(contract.remove)

testRuntime('firecracker', async () => ({ runtime: createFirecrackerRuntime(contract.options) }), {
  c: 'The sandbox of the contract server has no compiler.',
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
