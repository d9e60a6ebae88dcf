import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createProxmoxRuntime } from '@gantry/sandbox-proxmox'
import { nodeOptions } from './node.fixture.ts'

testRuntime('proxmox_lxc', async () => ({ runtime: createProxmoxRuntime(nodeOptions()) }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
